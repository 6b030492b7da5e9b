"""Everyday words that people and orders are told with: names, jobs, hobbies, wares; many, to learn copying."""

from __future__ import annotations

from .invented import CITIES, GOODS, HOBBIES, JOBS

WOMEN = ("Mia", "Emma", "Laura", "Sofia", "Julia", "Lena", "Hannah", "Marta", "Eva", "Helen", "Ruth", "Jane", "Lucy",
         "Sarah", "Amy", "Kate", "Linda", "Karen", "Priya", "Aisha", "Fatima", "Yuki", "Ingrid", "Elena", "Maria",
         "Chloe", "Nora", "Vera", "Lily", "Susan", "Diana", "Monica", "Paula", "Teresa", "Irene", "Greta")
MEN = ("Peter", "John", "Max", "Lukas", "Jonas", "Erik", "Omar", "Ali", "Ahmed", "Hugo", "Luis", "Carlos", "Marco",
       "Ivan", "Igor", "James", "Daniel", "Simon", "Mark", "Frank", "George", "Kenji", "Ravi", "Tim", "Adam", "Alex",
       "Bruno", "Diego", "Martin", "Robert", "Thomas", "Walter", "Liam", "Ethan", "Kevin", "Andre")
LAST_NAMES = ("Smith", "Brown", "Miller", "Jones", "Garcia", "Novak", "Schmidt", "Rossi", "Kim", "Lee", "Chen", "Singh",
              "Meyer", "Lopez", "Silva", "Taylor", "Walker", "Cooper", "Berg", "Fischer", "Haas", "Moreau", "Tanaka",
              "Costa", "Young", "White", "King", "Hill", "Baker", "Wood")
TOWNS = (*CITIES, "Hamburg", "Munich", "Boston", "Chicago", "Denver", "Seattle", "Toronto", "Sydney", "Milan", "Porto",
         "Lyon", "Geneva", "Zurich", "Bergen", "Glasgow", "Leeds", "Bristol", "London", "Krakow", "Naples", "Osaka",
         "Mumbai", "Delhi", "Austin", "New York", "Los Angeles", "San Diego", "Buenos Aires", "Cape Town", "Hong Kong",
         "Helsinki", "Copenhagen", "Stockholm", "Brussels", "Amsterdam", "Budapest", "Barcelona", "Nairobi", "Kyoto")
TRADES = (*JOBS, "plumber", "electrician", "mechanic", "waiter", "butcher", "tailor", "barber", "librarian",
          "journalist", "photographer", "musician", "actor", "dancer", "scientist", "programmer", "accountant",
          "manager", "secretary", "shop assistant", "bus driver", "taxi driver", "train driver", "truck driver",
          "firefighter", "police officer", "soldier", "judge", "translator", "tour guide", "travel agent", "architect",
          "vet", "surgeon", "pharmacist", "psychologist", "social worker", "coach", "fisherman", "florist", "jeweler",
          "locksmith", "optician", "piano teacher", "math teacher", "software developer", "data analyst",
          "web designer", "graphic designer", "civil engineer", "sales manager", "bank clerk", "student",
          "primary school teacher", "history professor", "music teacher", "chef", "biologist", "chemist",
          "welder", "roofer", "cleaner", "postman", "midwife", "museum guard", "flight attendant", "office worker")
PASTIMES = (*HOBBIES, "running", "yoga", "climbing", "sailing", "surfing", "skating", "baking", "knitting", "drawing",
            "writing poems", "collecting stamps", "collecting coins", "playing the guitar", "playing the piano",
            "playing cards", "video games", "board games", "old films", "opera", "bird watching", "horse riding",
            "volleyball", "basketball", "golf", "karate", "long walks", "camping", "crosswords", "science fiction",
            "model trains", "pottery", "rock music", "playing chess", "mountain biking", "table tennis", "martial arts",
            "detective novels", "scuba diving", "rowing", "flower arranging", "badminton", "astronomy", "wood carving")
WARES = (*GOODS, "notebooks", "pens", "mugs", "apples", "oranges", "roses", "tulips", "books", "shirts", "T-shirts",
         "plates", "blankets", "pillows", "socks", "batteries", "cables", "keyboards", "headphones", "cushions",
         "tables", "cakes", "pizzas", "sandwiches", "tickets", "postcards", "stamps", "bottles", "knives", "forks",
         "scarves", "jackets", "towels", "cameras", "phones", "printers", "rackets", "plants", "posters", "puzzles",
         "brushes", "vases", "desks", "monitors", "backpacks", "gloves", "cups", "bowls", "shelves", "folders",
         "envelopes", "light bulbs", "office chairs", "tea pots", "paint brushes", "garden tools", "flower pots",
         "coffee machines", "water bottles", "desk lamps", "wall clocks", "phone cases", "picture frames",
         "bread rolls",
         "chocolate bars", "soccer balls", "bicycle tires", "wine glasses", "screwdrivers", "laptops", "muffins")
LOOKS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "pink", "small", "large", "big", "round",
         "wooden", "plastic", "leather", "wool", "cotton", "paper", "glass", "metal", "silver", "new", "used", "old",
         "cheap", "heavy", "light", "long", "short", "fresh", "warm", "steel", "ceramic")
