// refuse: 11 `level` keeps a value of the previous observation
data { int N; int J; array[J] int s; vector[J] x; vector[N] y; }
parameters { real phi; real<lower=0> sigma; }
model {
  int pos = 1;
  real level = 0;
  phi ~ normal(0, 1);
  sigma ~ exponential(1);
  for (j in 1:J) {
    level = level * phi + x[j];
    segment(y, pos, s[j]) ~ normal(level, sigma);
    pos += s[j];
  }
}
