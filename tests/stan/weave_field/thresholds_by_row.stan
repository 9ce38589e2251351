data {
  int N;
  vector[N] y;
  array[N] real x;
  vector[N] z;
  array[N] int g;
  array[N] int h;
  array[N] int k;
  array[N] int m;
  matrix[N, 3] X;
  array[N] int<lower=0, upper=1> yb;
}
parameters {
  real a;
  real c;
  vector[3] b;
  matrix[5, 3] U;
  array[5] vector[3] V;
  vector[5] u;
  array[5] real w;
  real<lower=0> s;
  vector<lower=0>[5] sg;
  array[5, 3] real W;
  simplex[4] th;
  row_vector[3] rb;
}
model {
  a ~ std_normal();
  c ~ std_normal();
  b ~ std_normal();
  to_vector(U) ~ std_normal();
  for (i in 1 : 5) {
    V[i] ~ std_normal();
    W[i] ~ std_normal();
  }
  u ~ std_normal();
  w ~ std_normal();
  s ~ exponential(1);
  sg ~ exponential(1);
  rb ~ std_normal();
  for (n in 1 : N) {
    h[n] ~ ordered_logistic(a * x[n], [u[g[n]], u[g[n]] + s]');
  }
}

