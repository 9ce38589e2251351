// refuse: 3 phi
data { int N; int E; array[E] int node1; array[E] int node2; array[N] int y; }
parameters { vector[N] phi; real a; }
model { target += -0.5 * dot_self(phi[node1] - phi[node2]); y ~ poisson_log(a + phi); }
