"""The language of agent programs: states, generations, forks; no torch, no engine, no HTTP."""
