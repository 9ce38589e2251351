// Whether the program that this is linked to was made with STAN_THREADS.
extern const bool stan_threads = THREADS;
