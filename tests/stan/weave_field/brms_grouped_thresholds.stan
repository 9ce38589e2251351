functions {
  /* cumulative-logit log-PDF for a single response
   */
   real cumulative_logit_lpmf(int y, real mu, real disc, vector thres) {
     int nthres = num_elements(thres);
     if (y == 1) {
       return log_inv_logit(disc * (thres[1] - mu));
     } else if (y == nthres + 1) {
       return log1m_inv_logit(disc * (thres[nthres] - mu));
     } else {
       return log_inv_logit_diff(disc * (thres[y] - mu), disc * (thres[y - 1] - mu));
     }
   }
   real cumulative_logit_merged_lpmf(int y, real mu, real disc, vector thres, array[] int j) {
     return cumulative_logit_lpmf(y | mu, disc, thres[j[1]:j[2]]);
   }
   real ordered_logistic_merged_lpmf(int y, real mu, vector thres, array[] int j) {
     return ordered_logistic_lpmf(y | mu, thres[j[1]:j[2]]);
   }
}

data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> ngrthres;
  array[ngrthres] int<lower=1> nthres;
  array[N, 2] int<lower=1> Jthres;
  int<lower=1> K;
  matrix[N, K] X;
  int prior_only;
}
transformed data {
  int<lower=1> nmthres = sum(nthres);
  array[ngrthres] int<lower=1> Kthres_start;
  array[ngrthres] int<lower=1> Kthres_end;
  Kthres_start[1] = 1;
  Kthres_end[1] = nthres[1];
  for (i in 2:ngrthres) {
    Kthres_start[i] = Kthres_end[i-1] + 1;
    Kthres_end[i] = Kthres_end[i-1] + nthres[i];
  }
}
parameters {
  vector[K] b;
  ordered[nthres[1]] Intercept_1;
  ordered[nthres[2]] Intercept_2;
}
transformed parameters {
  vector[nmthres] merged_Intercept;
  real lprior = 0;
  merged_Intercept[Kthres_start[1]:Kthres_end[1]] = Intercept_1;
  merged_Intercept[Kthres_start[2]:Kthres_end[2]] = Intercept_2;
  lprior += student_t_lpdf(Intercept_1 | 3, 0, 2.5);
  lprior += student_t_lpdf(Intercept_2 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += X * b;
    for (n in 1:N) {
      target += ordered_logistic_merged_lpmf(Y[n] | mu[n], merged_Intercept, Jthres[n]);
    }
  }
  target += lprior;
}
