"""What a device computes: operations over paged keys and values. Knows no request."""
