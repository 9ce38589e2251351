// data: {"N": 10, "K": 2, "prior_only": 0}
data { int N; vector[N] Y; int K; matrix[N, K] X; vector[2] con_theta; int prior_only; }
parameters { vector[K] b1; vector[K] b2; real<lower=0> sigma1; real<lower=0> sigma2; simplex[2] theta; ordered[2] ordered_Intercept; }
transformed parameters { real<lower=0, upper=1> theta1 = theta[1]; real<lower=0, upper=1> theta2 = theta[2]; }
model {
  if (!prior_only) {
    vector[N] mu1 = rep_vector(0.0, N);
    vector[N] mu2 = rep_vector(0.0, N);
    mu1 += ordered_Intercept[1] + X * b1;
    mu2 += ordered_Intercept[2] + X * b2;
    for (n in 1:N) {
      array[2] real ps;
      ps[1] = log(theta1) + normal_lpdf(Y[n] | mu1[n], sigma1);
      ps[2] = log(theta2) + normal_lpdf(Y[n] | mu2[n], sigma2);
      target += log_sum_exp(ps);
    }
  }
}
