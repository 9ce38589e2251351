// data: {"N": 12, "cens": "np.resize([0,1,0],12)", "Y": "rng.exponential(size=N)", "Kbhaz": 3, "Zbhaz": "rng.random((N,3))", "Zcbhaz": "rng.random((N,3))", "con_sbhaz": "np.ones(3)"}
functions {
  real cox_lpdf(vector y, vector mu, vector bhaz, vector cbhaz) { return sum(log(bhaz) + log(mu) - cbhaz .* mu); }
  real cox_lccdf(vector y, vector mu, vector bhaz, vector cbhaz) { return -sum(cbhaz .* mu); }
}
data { int<lower=1> N; vector[N] Y; array[N] int cens; int Kbhaz; matrix[N,Kbhaz] Zbhaz; matrix[N,Kbhaz] Zcbhaz; vector<lower=0>[Kbhaz] con_sbhaz; }
transformed data { int Nevent = 0; int Nrcens = 0; array[N] int Jevent; array[N] int Jrcens; for (n in 1:N) { if (cens[n] == 0) { Nevent += 1; Jevent[Nevent] = n; } else if (cens[n] == 1) { Nrcens += 1; Jrcens[Nrcens] = n; } } }
parameters { real Intercept; simplex[Kbhaz] sbhaz; }
model { vector[N] bhaz = Zbhaz * sbhaz; vector[N] cbhaz = Zcbhaz * sbhaz; vector[N] mu = rep_vector(0.0, N); mu += Intercept; mu = exp(mu);
 target += cox_lpdf(Y[Jevent[1:Nevent]] | mu[Jevent[1:Nevent]], bhaz[Jevent[1:Nevent]], cbhaz[Jevent[1:Nevent]]);
 target += cox_lccdf(Y[Jrcens[1:Nrcens]] | mu[Jrcens[1:Nrcens]], bhaz[Jrcens[1:Nrcens]], cbhaz[Jrcens[1:Nrcens]]);
 Intercept ~ normal(0,1); sbhaz ~ dirichlet(con_sbhaz); }
