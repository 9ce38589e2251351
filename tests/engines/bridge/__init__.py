"""A third engine, of the package bridgestan: programs compiled by a C++ compiler, in process."""
