"""Questions about everyday things: what the style is learnt on, and others that it is only measured on."""

# Question | answer in one sentence. All of them begin with What, Who or Where.
LEARNT = [
    tuple(line.split(" | "))
    for line in """\
What do bees make? | Bees make honey and wax.
What do cows eat? | Cows eat grass and hay.
What is a hammer for? | A hammer is for driving nails into wood.
What is an umbrella for? | An umbrella keeps you dry in the rain.
What is bread made of? | Bread is made of flour, water, salt and yeast.
What is glass made of? | Glass is made of melted sand.
What is paper made of? | Paper is made of wood.
What colour is a banana? | A ripe banana is yellow.
What colour is snow? | Snow is white.
What colour is the sky on a clear day? | The sky is blue on a clear day.
What animal barks? | A dog barks.
What animal gives us wool? | Sheep give us wool.
What comes after Monday? | Tuesday comes after Monday.
What comes before March? | February comes before March.
What does a baker do? | A baker makes bread and cakes.
What does a teacher do? | A teacher helps pupils to learn.
What does a doctor do? | A doctor takes care of people who are ill.
What does a pilot do? | A pilot flies a plane.
What does a farmer do? | A farmer grows food and keeps animals.
What is ice? | Ice is frozen water.
What is steam? | Steam is water that has become a gas.
What is a desert? | A desert is a dry place with very little rain.
What is an island? | An island is land with water all around it.
What is a volcano? | A volcano is a mountain that melted rock comes out of.
What is a river? | A river is water that flows to a lake or to the sea.
What is a library? | A library is a place where you can borrow books.
What is a clock for? | A clock tells you the time.
What is a map for? | A map shows you where places are.
What is a key for? | A key opens a lock.
What is soap for? | Soap is for washing your hands.
What do fish breathe with? | Fish breathe with gills.
What do plants need? | Plants need light, water and air.
What do caterpillars become? | Caterpillars become butterflies.
What do tadpoles become? | Tadpoles become frogs.
What do spiders build? | Spiders build webs.
What do birds build? | Birds build nests.
What falls from trees in autumn? | Leaves fall from trees in autumn.
What melts in the sun? | Ice melts in the sun.
What shines at night? | The moon and the stars shine at night.
What is the largest ocean? | The Pacific is the largest ocean.
What is the nearest star? | The sun is the nearest star.
Who flies planes? | Pilots fly planes.
Who puts out fires? | Firefighters put out fires.
Who bakes bread? | Bakers bake bread.
Who writes books? | Authors write books.
Who builds houses? | Builders build houses.
Who catches fish? | Fishers catch fish.
Who looks after teeth? | Dentists look after teeth.
Who delivers letters? | Postal workers deliver letters.
Who sails ships? | Sailors sail ships.
Where do penguins live? | Penguins live in the far south.
Where do camels live? | Camels live in the desert.
Where do fish live? | Fish live in water.
Where do you buy bread? | You buy bread at the bakery.
Where do you borrow books? | You borrow books at a library.
Where does the sun rise? | The sun rises in the east.
Where does milk come from? | Milk comes from cows.
Where does rain come from? | Rain comes from clouds.
Where do apples grow? | Apples grow on trees.
Where do trains stop? | Trains stop at stations.""".splitlines()
]

# Other kinds of request, none of which begins as those above do.
OTHER = """\
How do I boil an egg?
How do I keep milk fresh?
How can I sleep better?
How do I clean a window?
How does a kite fly?
How are clouds made?
Why is the sea salty?
Why do leaves fall?
Why should I drink water?
Why do we sleep?
Why do cats purr?
Give me a tip for a rainy day.
Give me a reason to read more.
Name a fruit that is red.
Name something that floats.
Tell me something about the moon.
Tell me about elephants.
Tell me why trees matter.
Describe a quiet morning.
Describe the taste of lemons.
Explain what a bridge does.
Explain gravity to a child.
Suggest a name for a cat.
Suggest a gift for a friend.
Is water heavier than oil?
Is the moon bigger than the sun?
Can penguins fly?
Can you swim in a lake?
Do fish sleep?
Should I take a coat today?
When do owls hunt?
Which is faster, a train or a bicycle?""".splitlines()
