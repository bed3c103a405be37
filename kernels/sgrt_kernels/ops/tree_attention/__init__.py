"""Decode attention over a tree of shared prefixes: what many sequences share is read once."""

from sgrt_kernels.ops.tree_attention.dispatch import tree_attention
from sgrt_kernels.ops.tree_attention.plan import TreePlan, TreeRun, plan_tree

__all__ = ["TreePlan", "TreeRun", "plan_tree", "tree_attention"]
