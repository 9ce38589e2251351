// refuse: 15 ODE
functions {
  vector sho(real t, vector y, real theta) {
    vector[2] dydt;
    dydt[1] = y[2];
    dydt[2] = -y[1] - theta * y[2];
    return dydt;
  }
}
data { int<lower=1> T; array[T] vector[2] y; real t0; array[T] real ts; vector[2] y0; }
parameters { vector<lower=0>[2] sigma; real<lower=0> theta; }
model {
  array[T] vector[2] mu = ode_rk45(sho, y0, t0, ts, theta);
  theta ~ normal(0, 1);
  for (t in 1:T) y[t] ~ normal(mu[t], sigma);
}
