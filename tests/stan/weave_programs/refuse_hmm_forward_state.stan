// refuse: 4 .*`alpha` keeps a value of the previous.*hidden Markov
data { int N; vector[N] y; }
parameters { array[2] simplex[2] A; ordered[2] mu; }
model { vector[2] alpha = rep_vector(-log(2), 2); for (n in 1:N) { vector[2] nxt; for (k in 1:2) nxt[k] = log_sum_exp(alpha + log([A[1,k], A[2,k]]')) + normal_lpdf(y[n] | mu[k], 1); alpha = nxt; } target += log_sum_exp(alpha); }
