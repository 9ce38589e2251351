// data: {"N": 12}
data { int N; vector[N] y; vector[N] x; }
parameters { real mu; real b; real<lower=0> s; }
model {
  vector[N] ll;
  for (i in 1:N) ll[i] = student_t_lpdf(y[i] | 4, mu + b * x[i], s);
  target += sum(ll);
}
