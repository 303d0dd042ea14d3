"""What a user wrote: the models of a scenario file, its loader, its matrix, its validation."""
