// data: {"N": 10, "M": 3}
functions {
  vector spd(real a, real rho, vector w) { return a * sqrt(2 * pi()) * rho * exp(-0.5 * rho^2 * w^2); }
}
data { int N; int M; vector[N] x; vector[N] y; matrix[N, M] PHI; vector[M] omega; }
parameters { vector[M] z; real<lower=0> a; real<lower=0> rho; real<lower=0> s; }
transformed parameters { vector[N] f = PHI * (sqrt(spd(a, rho, omega)) .* z); }
model { y ~ normal(f, s); z ~ std_normal(); }
