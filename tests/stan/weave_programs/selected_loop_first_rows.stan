// data: {"N": 14, "picked": 0}
// Row numbers that transformed data collect, and a loop beside one over all rows.
data {
  int<lower=1> N;
  array[N] int<lower=0, upper=1> late;
  vector[N] x;
  vector[N] y;
}
transformed data {
  int M = sum(late);
  array[M] int when;
  {
    int k = 0;
    for (n in 1 : N) {
      if (late[n] == 1) {
        k += 1;
        when[k] = n;
      }
    }
  }
}
parameters {
  real a;
  real b;
  real<lower=0> s;
}
model {
  a ~ normal(0, 1);
  for (n in 1 : N) {
    if (late[n] == 0) {
      y[n] ~ normal(a + b * x[n], s);
    }
  }
  for (j in 1 : size(when)) {
    y[when[j]] ~ student_t(4, a, s);
  }
  b ~ normal(0, 1);
}
