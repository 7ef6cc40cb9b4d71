"""Legal sets, comparison, attribution, findings and their shrinking."""
