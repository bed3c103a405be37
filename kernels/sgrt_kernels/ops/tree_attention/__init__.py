"""Attention of decoding sequences that share leading pages, which are read once."""

from sgrt_kernels.ops.tree_attention.dispatch import tree_attention
from sgrt_kernels.ops.tree_attention.plan import PlannedTree, TreePlan, plan_tree

__all__ = ["PlannedTree", "TreePlan", "plan_tree", "tree_attention"]
