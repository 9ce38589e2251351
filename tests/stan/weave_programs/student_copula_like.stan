// data: {"N": 10}
data { int N; array[N] vector[2] y; }
parameters { real<lower=-1, upper=1> rho; vector[2] mu; vector<lower=0>[2] s; real<lower=2> nu; }
model {
  matrix[2, 2] S = [[s[1]^2, rho * s[1] * s[2]], [rho * s[1] * s[2], s[2]^2]];
  y ~ multi_student_t(nu, mu, S);
  nu ~ gamma(2, 0.1); s ~ normal(0, 1);
}
