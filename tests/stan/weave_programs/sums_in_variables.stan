// data: {"N": 11, "K": 2, "flag": 1}
// Sums over rows that variables hold, as they are passed on, scaled, chosen and added up.
data { int N; int K; int flag; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> z; }
parameters { real a; real b; real<lower=0> s; }
transformed parameters {
  real fit = normal_lpdf(y | a + b * x, s) + exponential_lpdf(s | 1);
  real both;
  if (flag) both = 0.5 * fit;
  else both = normal_lpdf(a | 0, 1);
}
model {
  real lp = std_normal_lpdf(b);
  real other = 2;
  for (n in 1:N) if (z[n] == 1) lp += cauchy_lpdf(x[n] | b, s);
  other += lp;
  lp /= 2;
  for (k in 1:K) {
    lp += -k * dot_self(y - a);
    for (n in 1:N) lp += -abs(x[n]) * s;
    target += lp / k;
  }
  lp = std_normal_lpdf(a);
  target += lp - -other * 3;
  target += both;
}
