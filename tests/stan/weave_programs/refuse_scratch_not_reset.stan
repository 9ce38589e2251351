// refuse: 8 previous observation
data { int N; int T; array[N, T] int<lower=1, upper=2> arm; matrix[N, T] r; }
parameters { real<lower=0, upper=1> rate; real<lower=0> tau; }
model {
  vector[3] value = rep_vector(0, 3);
  for (i in 1:N) {
    value[1] = 0; value[2] = 0;
    for (t in 1:T) { arm[i, t] ~ categorical_logit(tau * value); value[arm[i, t] + 1] += rate * r[i, t]; }
  }
}
