// Everything small in one translation unit: Stan's headers are parsed once for all of it.
#include "evaluate.cpp"
#include "files.cpp"
#include "job.cpp"
#include "main.cpp"
