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
near close nearby beside alongside
under below beneath underneath
can may able allowed permitted
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
mg milligram milligrams
microgram micrograms µg mcg
litre litres liter liters
second seconds sec secs
kw kilowatt kilowatts
gb gigabyte gigabytes
cent cents
degree degrees °
euro euros eur €
dollar dollars usd $
pound pounds gbp £
percent percentage %
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
need needs needed require requires required must obliged obligatory
difficult hard tough
easy simple
important essential
wrong incorrect
colour color colours colors
grey gray
wood wooden
wool woollen woolen
gold golden
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
who whom whose which what where
and of in on at to for by via upon with from as into onto about
do does did doing done
so very really quite rather just also too actually basically simply indeed currently presently now still
mr mrs ms
every each both per
that's it's he's she's i'm they're we're you're i've they've we've
";

/// Words that may stand on one side alone, though they say a little: how often in general, what kind of thing a value is,
/// and verbs that lend themselves to anything.
pub const SOFT: &str = "
always usually generally normally regularly typically often
when whenever while if some several
city town year colour color number name size type kind brand model price time place person thing things
get gets got getting go goes going went come comes came coming take takes took taken taking keep keeps keeping
make makes making put puts putting use uses used using become becomes became
should would
named called costs cost price prices priced
";

/// Stems and groups that make of a value something that does not hold: it is over, to come, wished for, or nearly so.
pub const UNDOING: &str = "
~leave ~move ~sell ~want ~plan ~need ~dislike ~hate will may might could ~can lose cancel drop replac chang switch exchang
expect hope consid think believ try ask appli seem almost near rough approxim former past old soon away instead rather els other anoth
avoid reject refus forget miss deni doubt fail contrari opposit outsid
";

/// What a predicate says by itself, so that its contents may say it or not.
pub const IMPLIED: &str = "
favorite_food: dish meal food
color colour: painted
price cost costs rent fee rate: costs pays price monthly
deadline due expires ends until: due deadline expires ends valid runs
time start opening starts: starts begins opens
location address lives_in: stands lies sits hangs place kept located
model brand: made built
school studies_at: attends goes pupil student
diet: eats
subscription: pays
day date on: happens
lives_in: live home house flat address room
birthday: born birth day date
age: age aged old years
height: tall height high big measures
weight: weight weighed weighs scales
goal_weight: weigh weight goal target
occupation: run owner lead work job profession employed
works_at works_for: work job employed employer
likes: like love enjoy fond adore great much
dislikes: dislike hate detest loathe
hobby: do play
allergy: allergy
condition: diagnosed suffer condition ill
medication: medication take
speaks: speak talk language know
favorite favourite: like love best favourite prefer
skill: play can able good know skill
owns: own belong possess keep
pet: pet keep
goal: want goal aim wish target
plan: plan want will wish intend
habit: usually habit routine does
visited: visited was went been trip
child parent_of: child
married_to: married spouse husband wife
friend_of partner_of: friend partner
symptom measurement: felt measured
meal: ate eat meal
met: met meeting
transaction: paid pay bought cost spent
interaction: called talked phone contact
trip: went travel trip
name: name called
phone: number telephone
";

/// Irregular forms, each after the word that a dictionary has.
pub const FORMS: &str = "
eat ate eaten
drink drank drunk
run ran
swim swam swum
write wrote written
drive drove driven
fly flew flown
leave left
teach taught
speak spoke spoken
give gave given
see saw seen
win won
lose lost
sell sold
grow grew grown
begin began begun
know knew known
pay paid
break broke broken
choose chose chosen
sleep slept
tell told
say said
think thought
feel felt
find found
hold held
lead led
spend spent
stand stood
wear wore worn
buy bought
bring brought
catch caught
build built
send sent
lend lent
bend bent
meet met
sit sat
lie lay lain lying
hang hung
draw drew drawn
sow sown
sew sewn
show shown
throw threw thrown
blow blew blown
ring rang rung
sing sang sung
sink sank sunk
ride rode ridden
rise rose risen
bite bit bitten
hide hid hidden
fall fell fallen
forget forgot forgotten
freeze froze frozen
steal stole stolen
shake shook shaken
wake woke woken
swell swollen
shut shutting
feed fed
child children
foot feet
tooth teeth
mouse mice
goose geese
man men
woman women
knife knives
life lives
leaf leaves
half halves
die dying
";
