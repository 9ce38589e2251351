// refuse: 10 .*`cox_lpdf`.*combines observations.*
functions {
  real cox_lpdf(vector y, vector mu, vector bhaz, vector cbhaz) { return sum(log(bhaz) + log(mu) - cbhaz .* mu) - log(sum(mu)); }
  real cox_lccdf(vector y, vector mu, vector bhaz, vector cbhaz) { return -sum(cbhaz .* mu); }
}
data { int<lower=1> N; vector[N] Y; array[N] int cens; int Kbhaz; matrix[N,Kbhaz] Zbhaz; matrix[N,Kbhaz] Zcbhaz; vector<lower=0>[Kbhaz] con_sbhaz; }
transformed data { int Nevent = 0; int Nrcens = 0; array[N] int Jevent; array[N] int Jrcens; for (n in 1:N) { if (cens[n] == 0) { Nevent += 1; Jevent[Nevent] = n; } else if (cens[n] == 1) { Nrcens += 1; Jrcens[Nrcens] = n; } } }
parameters { real Intercept; simplex[Kbhaz] sbhaz; }
model { vector[N] bhaz = Zbhaz * sbhaz; vector[N] cbhaz = Zcbhaz * sbhaz; vector[N] mu = rep_vector(0.0, N); mu += Intercept; mu = exp(mu);
 target += cox_lpdf(Y[Jevent[1:Nevent]] | mu[Jevent[1:Nevent]], bhaz[Jevent[1:Nevent]], cbhaz[Jevent[1:Nevent]]);
 target += cox_lccdf(Y[Jrcens[1:Nrcens]] | mu[Jrcens[1:Nrcens]], bhaz[Jrcens[1:Nrcens]], cbhaz[Jrcens[1:Nrcens]]);
 Intercept ~ normal(0,1); sbhaz ~ dirichlet(con_sbhaz); }
