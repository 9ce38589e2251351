// data: {"N": 12, "robust": 1, "count": 0}
data { int N; vector[N] y; vector[N] x; int robust; int count; }
parameters { real a; real b; real<lower=0> s; }
model {
  vector[N] mu = a + b * x;
  target += normal_lpdf(a | 0, 1);
  target += robust ? student_t_lpdf(y | 4, mu, s) : normal_lpdf(y | mu, s);
  target += (count > 0 ? 0 : (robust ? sum(-square(x - b)) : normal_lpdf(x | b, 1)));
}
