//! Words for [`super::same`]: which stand for one another, and which carry nothing.
//!
//! General English, not tuned to any set of texts. A group holds what may be exchanged in a statement about somebody
//! without changing it; where that depends, the word is in no group, and two texts that differ in it stay two.

/// A line is a group. A word belongs to the first in which it stands.
pub const GROUPS: &str = "
live lives lived living reside resides resided residing residence home house dwell dwells address
work works working worked job employed employer employment workplace
child children kid kids
mother mom mum mama mommy
father dad papa daddy
grandmother grandma granny nana
grandfather grandpa granddad
spouse partner
wife
husband
sibling siblings
doctor physician gp
dentist
car automobile auto
bike bicycle
phone telephone mobile cellphone smartphone
tv television telly
photo photograph picture photos pictures
movie movies film films
flat apartment
holiday holidays vacation vacations
trip journey travel travels travelled traveling
buy buys bought buying purchase purchased purchases purchasing
get gets got getting receive receives received receiving
begin begins began begun beginning start starts started starting
end ends ended ending finish finishes finished finishing
big large huge
small little tiny
fast quick quickly rapid
glad happy pleased
sad unhappy
angry mad
ill sick unwell
like likes liked liking enjoy enjoys enjoyed enjoying fond fan
love loves loved loving adore adores adored
hate hates hated hating detest detests loathe loathes
dislike dislikes disliked
prefer prefers preferred preference favourite favorite favourites favorites
want wants wanted wish wishes wished
plan plans planned planning intend intends intended
talk talks talked speak speaks spoke spoken
say says said tell tells told
meet meets met meeting meetings appointment appointments
sell sells sold selling
rent rents rented renting lease leases leased
name named names called
born birth birthday birthdate
die dies died dead death deceased
marry marries married marriage wed wedded wedding
divorce divorced
study studies studied studying
learn learns learned learnt learning
teach teaches taught teaching teacher
school
university college uni
company firm
boss manager supervisor
colleague colleagues coworker coworkers
friend friends buddy pal
neighbour neighbours neighbor neighbors
town
city
country
road street
near close nearby
far distant
cook cooks cooked cooking
eat eats ate eaten eating
drink drinks drank drunk drinking
vegetarian veggie
vegan
allergic allergy allergies
medicine medication medications drug drugs meds
pill pills tablet tablets
pain hurt hurts aches ache aching sore
exercise exercises exercised workout workouts
run runs ran running jog jogs jogged jogging
swim swims swam swimming
walk walks walked walking
play plays played playing
watch watches watched watching
read reads reading
write writes wrote written writing
sleep sleeps slept sleeping asleep
wake wakes woke waking
morning mornings
afternoon afternoons
evening evenings
night nights nightly
day days daily
week weeks weekly
month months monthly
year years yearly annual annually
hour hours h
minute minutes min mins
kg kilo kilos kilogram kilograms kilogramme
km kilometre kilometres kilometer kilometers
cm centimetre centimetres centimeter centimeters
m metre metres meter meters
g gram grams
euro euros eur €
dollar dollars usd $
pound pounds gbp £
percent %
money cash
pay pays paid paying
cost costs price prices priced
cheap inexpensive
expensive costly pricey
gift gifts present presents
garden yard
dog dogs
cat cats
pet pets
baby infant
boy boys
girl girls
woman women lady
man men guy
person people
repair repairs repaired fix fixes fixed
broken broke
build builds built building
make makes made making
call calls calling
arrive arrives arrived arriving arrival
leave leaves left leaving depart departs departed departure
return returns returned
move moves moved moving relocate relocated relocates
visit visits visited visiting
fly flies flew flown flight flights
drive drives drove driven driving
help helps helped helping assist assists assisted
need needs needed require requires required
must obliged obligatory
difficult hard tough
easy simple
important essential
wrong incorrect
colour color colours colors
grey gray
theatre theater
centre center
glasses spectacles
shop store shops stores
lawyer attorney solicitor
rubbish trash garbage
lift elevator
insurance insured
join joins joined joining
hobby hobbies pastime
afraid scared frightened fear fears
weigh weighs weighed weight
tall height
old aged age
";

/// Words that may stand on one side alone.
pub const LIGHT: &str = "
a an the this that these those there here it its is are was were be been being am
kept located situated
have has had having own owns owned owning possess possesses
i me my mine myself we us our ours you your yours he him his himself she her hers herself they them their theirs
who whom whose which what
and of in on at to for by with from as into onto about
do does did doing done
so very really quite rather just also too actually basically simply indeed currently presently now still
mr mrs ms
that's it's he's she's i'm they're we're you're i've they've we've
";
