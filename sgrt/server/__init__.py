"""The HTTP server: routes, the wire of each API, and the service that runs calls on a backend."""
