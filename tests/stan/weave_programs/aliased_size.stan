// data: {"num_data": 12}
data { int<lower=5> num_data; vector[num_data] y; array[num_data] int<lower=1, upper=num_data> tag; }
transformed data { int N = num_data; vector[N] ly = log1p(square(y)); }
parameters { real mu; real<lower=0> s; }
model { for (i in 1:N) ly[i] ~ normal(mu, s); mu ~ normal(0, 1.0 / N); }
