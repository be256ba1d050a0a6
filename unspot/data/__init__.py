"""What all other packages use: rows, labels, splits, samples and class statistics."""
