"""What a tenant may hold and spend.

The quota tree with borrowing and lending, dominant shares, charges and budgets.
"""
