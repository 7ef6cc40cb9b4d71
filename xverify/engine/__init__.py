"""Planning, running and storing a sweep. The engine emits events and knows no consumer."""
