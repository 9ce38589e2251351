# Programs and data of many families and terms of brms: Rscript brms_programs.R FOLDER coreset_brm.R
suppressMessages({library(brms); library(jsonlite)})
to <- commandArgs(TRUE)[1]
# The helper's own lines, which write arrays in today's way.
lines <- readLines(commandArgs(TRUE)[2])
first <- grep("type <-", lines)
rewritten <- function(code) { eval(parse(text = lines[first:(first + 3)])); code }
set.seed(1); n <- 240
d <- data.frame(x=rnorm(n), z=rnorm(n), x2=runif(n), g=factor(sample(12,n,TRUE)), h=factor(sample(7,n,TRUE)), g2=factor(sample(12,n,TRUE),levels=1:12), b=factor(sample(c("u","v"),n,TRUE)), tt=rep(1:20,12), se=runif(n,.1,.5), w=runif(n,.5,2), o=sample(4,n,TRUE), cat=factor(sample(c("a","b","c"),n,TRUE)), mo=ordered(sample(4,n,TRUE)), cens=sample(c(0,1),n,TRUE), N=sample(5:10,n,TRUE), sdx=runif(n,.1,.3), s1=sample(c(TRUE,FALSE),n,TRUE), dec=sample(0:1,n,TRUE), e=runif(n,1,3))
d$y <- d$x*.5+rnorm(n); d$y2 <- d$x-.3*d$z+rnorm(n); d$bg <- factor(as.integer(d$g)%%2); d$gt <- factor(rep(1:12,each=20)); d$p <- exp(d$y/3); d$cnt <- rpois(n,exp(.3*d$x+.5)); d$zi <- d$cnt*rbinom(n,1,.6); d$bin <- rbinom(n,1,.5); d$k <- rbinom(n,d$N,.4); d$pr <- plogis(d$y); d$zb <- ifelse(runif(n)<.1,0,d$pr); d$zo <- ifelse(runif(n)<.1,0,ifelse(runif(n)<.1,1,d$pr)); d$ang <- runif(n,-3,3); d$hp <- d$p*rbinom(n,1,.7); d$rt <- d$p+.3
d$m1<-rmultinom(n,6,c(.2,.3,.5))[1,]; M<-t(rmultinom(n,6,c(.2,.3,.5))); d$M <- M; d$sz <- rowSums(M)
W <- matrix(0,12,12); for(i in 1:11){W[i,i+1]<-1;W[i+1,i]<-1}; rownames(W)<-colnames(W)<-as.character(1:12)
A <- diag(12)+.1; rownames(A)<-colnames(A)<-as.character(1:12)
cases <- list(
 student=list(y~x+(1+x|g), family=student()),
 skew=list(bf(y~x, sigma~z, alpha~1), family=skew_normal()),
 exgauss=list(bf(rt~x, beta~z), family=exgaussian()),
 shifted=list(rt~x+(1|g), family=shifted_lognormal()),
 invgauss=list(p~x, family=inverse.gaussian(link="log")),
 asymlap=list(bf(y~x, quantile=.3), family=asym_laplace()),
 vonmises=list(bf(ang~x,kappa~z), family=von_mises()),
 frechet=list(p~x, family=frechet()),
 gev=list(y~x, family=gen_extreme_value()),
 weib=list(rt|cens(cens)~x+(1|g), family=weibull()),
 gammac=list(rt|cens(cens)~x, family=Gamma("log")),
 cox=list(rt|cens(cens)~x+(1|g), family=brmsfamily("cox")),
 trunc=list(y|trunc(lb=-6)~x, family=gaussian()),
 se=list(y|se(se)~x+(1|g), family=gaussian()),
 se2=list(y|se(se,sigma=TRUE)~x, family=gaussian()),
 wts=list(y|weights(w)~x, family=gaussian()),
 rate=list(cnt|rate(e)~x+(1|g), family=poisson()),
 negb=list(bf(cnt~x+offset(log(e)), shape~z), family=negbinomial()),
 geom=list(cnt~x, family=geometric()),
 compois=list(cnt~x, family=brmsfamily("com_poisson")),
 discw=list(cnt~x, family=brmsfamily("discrete_weibull")),
 zip=list(bf(zi~x+(1|g), zi~z), family=zero_inflated_poisson()),
 zinb=list(zi~s(x)+(1|g), family=zero_inflated_negbinomial()),
 zib=list(k|trials(N)~x, family=zero_inflated_binomial()),
 betab=list(k|trials(N)~x+(1|g), family=brmsfamily("beta_binomial")),
 hurg=list(bf(hp~x, hu~z), family=hurdle_gamma()),
 hurln=list(hp~x+(1|g), family=hurdle_lognormal()),
 hurnb=list(zi~x, family=hurdle_negbinomial()),
 beta=list(bf(pr~x+(1|g), phi~z), family=Beta()),
 zib2=list(zb~x, family=zero_inflated_beta()),
 zoib=list(bf(zo~x, zoi~z, coi~x), family=zero_one_inflated_beta()),
 cumul=list(o~x+(1|g), family=cumulative("probit")),
 cumdisc=list(bf(o~x)+lf(disc~0+z,cmc=FALSE), family=cumulative()),
 cs=list(o~cs(x)+z, family=acat()),
 srat=list(o~x+(1|g), family=sratio()),
 crat=list(o~cs(x), family=cratio("cloglog")),
 cumthres=list(o|thres(gr=b)~x, family=cumulative()),
 categ=list(cat~x+(1|g), family=categorical()),
 multin=list(M|trials(sz)~x, family=multinomial()),
 mono=list(y~mo(mo)*x+(1|g), family=gaussian()),
 me=list(y~me(x,sdx), family=gaussian()),
 smooth=list(y~s(x,k=6)+s(z,k=4)+(1|g), family=gaussian()),
 sby=list(cnt~s(x,by=b)+b, family=poisson()),
 gp=list(y~gp(x,k=5,c=5/4)+z, family=gaussian()),
 gpfull=list(y~gp(x2), family=gaussian()),
 grby=list(y~x+(1|gr(g,by=bg)), family=gaussian()),
 grcov=list(y~x+(1|gr(g,cov=A)), data2=list(A=A), family=gaussian()),
 grstud=list(y~x+(1|gr(g,dist="student")), family=gaussian()),
 mm=list(y~x+(1|mm(g,g2)), family=gaussian()),
 mmc=list(y~x+(1+mmc(x,z)|mm(g,g2)), family=gaussian()),
 nest=list(bin~x+(1|g/h), family=bernoulli()),
 nl=list(bf(y~a*exp(-b1*x2), a~1+(1|g), b1~1, nl=TRUE), family=gaussian(), prior=prior(normal(0,2),nlpar="a")+prior(normal(0,2),nlpar="b1")),
 mv=list(bf(y~x+(1|i|g))+bf(y2~z+(1|i|g))+set_rescor(TRUE), family=gaussian()),
 mvno=list(bf(y~x+(1|i|g),family=gaussian())+bf(cnt~z+(1|i|g),family=poisson())+set_rescor(FALSE)),
 mvsub=list(bf(y|subset(s1)~x)+bf(y2~z)+set_rescor(FALSE), family=gaussian()),
 mix=list(y~x, family=mixture(gaussian(),gaussian())),
 mixnb=list(bf(cnt~x, theta1~z), family=mixture(poisson(),negbinomial())),
 ar=list(y~x+ar(tt,gt), family=gaussian()),
 arcov=list(y~x+ar(tt,gt,cov=TRUE), family=gaussian()),
 cosy=list(y~x+cosy(tt,gt), family=gaussian()),
 car=list(y~x+car(W,gr=g,type="icar"), data2=list(W=W), family=gaussian()),
 escar=list(cnt~x+car(W,gr=g), data2=list(W=W), family=poisson()),
 hs=list(y~x+z+x2, family=gaussian(), prior=prior(horseshoe(1))),
 r2d2=list(y~x+z+x2, family=gaussian(), prior=prior(R2D2())),
 lasso=list(y~x+z, family=gaussian(), prior=prior(lasso())),
 qr=list(bf(y~x+z+x2,decomp="QR"), family=gaussian()),
 sparse=list(bf(y~x+z+g,sparse=TRUE), family=gaussian()),
 wiener=list(rt|dec(dec)~x, family=wiener()),
 cust_sig=list(bf(y~x+(1|i|g), sigma~z+(1|i|g)), family=gaussian()),
 mi=list(bf(y~mi(x3))+bf(x3|mi()~z)+set_rescor(FALSE), family=gaussian()),
 vint=list(cnt~0+Intercept+x, family=poisson("sqrt")),
 cloglog=list(bin~x+(x|g), family=bernoulli("cloglog")),
 probit=list(k|trials(N)~x+(1|g), family=binomial("probit")),
 thread=list(bin~x+(1|g), family=bernoulli(), threads=threading(2)),
 norm=list(y~x, family=gaussian(), normalize=FALSE),
 cauchit=list(bin~x, family=bernoulli("cauchit")),
 ubounded=list(y~x, family=gaussian(), prior=set_prior("normal(0,1)",class="b",lb=0))
)
d$x3 <- d$x; d$x3[1:20] <- NA
for (k in names(cases)) {
  a <- c(cases[[k]], list(data=d)); names(a)[1] <- "formula"
  r <- try({ code <- suppressMessages(suppressWarnings(do.call(make_stancode, a)));
    b <- a; b$normalize <- NULL
    dat <- suppressMessages(suppressWarnings(do.call(make_standata, b)))
    class(dat) <- "list"; 
  code <- rewritten(code)
  writeLines(code, file.path(to, paste0(k, ".stan")))
    # scalars to scalars, arrays kept
    out <- lapply(dat, function(v) if (is.null(dim(v)) && length(v)==1) unbox(as.vector(v)) else if (is.null(dim(v))) as.vector(v) else if (length(dim(v))==1) as.vector(v) else unclass(v))
    attributes(out) <- list(names=names(dat)); write(toJSON(out, digits=NA), file.path(to, paste0(k, ".json"))) }, silent=TRUE)
  if (inherits(r,"try-error")) cat(k, "R:", substr(r,1,150), "\n")
}
