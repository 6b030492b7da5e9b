"""Everyday sentences in ten languages, as frames and the whole phrases that fill them, the same ones in each."""

from __future__ import annotations

from typing import NamedTuple

from .sentences import cells


class Language(NamedTuple):
    """frames take a thing {o} (as an object), a place {p} (where?), a time {t} and a person {w} (as the subject)."""

    hello: tuple[str, ...]
    fixed: tuple[str, ...]
    frames: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]
    times: tuple[str, ...]
    people: tuple[str, ...]


LANGUAGES = {name: Language(*map(cells, rows)) for name, *rows in (
    ("English", "Good morning!|Hello, how are you?|Good evening!|Thank you very much.|Excuse me.|Nice to meet you.",
     "It is raining and the wind is cold.|The sun is shining today.|My train leaves in ten minutes.|"
     "How much does it cost?|I do not understand the question.|We are very happy to be here.|What time is it?|"
     "See you tomorrow!",
     "I am buying {o} {p}.|{w} wants to buy {o}.|Do you have {o}?|{t} we will buy {o}.|I can see {o} {p}.|"
     "{w} is waiting {p}.|{t} {w} works {p}.|Where can I find {o}?|I would like {o}, please.|"
     "{t} the whole family meets {p}.|{w} will bring {o} {t}.|Will you be {p} {t}?|It is cold {p}.|"
     "The children are playing {p}.",
     "a red bicycle|fresh bread|a new book|a cup of coffee|two tickets|a warm coat|a big umbrella|cheese and fruit|"
     "a small gift|a good wine|black shoes|an old clock|yellow flowers|a map of the city|a glass of water|"
     "a blue dress|a cheap phone|a chocolate cake|hot soup|green apples|a comfortable chair|a newspaper|"
     "milk and sugar|a birthday card",
     "in the park|at the market|at the station|in the city center|at school|in the kitchen|near the church|"
     "on the beach|in the garden|in a small village|at the airport|in front of the house|in the old town|"
     "on the bridge|at the hotel|in the library",
     "today|tomorrow morning|on Saturday|this evening|every day|in summer|next week|at eight o'clock|after work|"
     "on Sunday|this afternoon|after breakfast|on Monday|at noon",
     "my mother|my brother|our neighbor|the teacher|his daughter|a friend|the old man|Anna|my grandfather|"
     "the doctor|my sister|the baker"),
    ("French", "Bonjour !|Salut, comment ça va ?|Bonsoir !|Merci beaucoup.|Excusez-moi.|Enchanté de vous rencontrer.",
     "Il pleut et le vent est froid.|Le soleil brille aujourd'hui.|Mon train part dans dix minutes.|"
     "Combien ça coûte ?|Je ne comprends pas la question.|Nous sommes très contents d'être ici.|"
     "Quelle heure est-il ?|À demain !",
     "J'achète {o} {p}.|{w} veut acheter {o}.|Avez-vous {o} ?|{t}, nous allons acheter {o}.|Je vois {o} {p}.|"
     "{w} attend {p}.|{t}, {w} travaille {p}.|Où est-ce que je peux trouver {o} ?|"
     "Je voudrais {o}, s'il vous plaît.|{t}, toute la famille se retrouve {p}.|{w} va apporter {o} {t}.|"
     "Serez-vous {p} {t} ?|Il fait froid {p}.|Les enfants jouent {p}.",
     "un vélo rouge|du pain frais|un nouveau livre|une tasse de café|deux billets|un manteau chaud|"
     "un grand parapluie|du fromage et des fruits|un petit cadeau|un bon vin|des chaussures noires|"
     "une vieille horloge|des fleurs jaunes|un plan de la ville|un verre d'eau|une robe bleue|"
     "un téléphone pas cher|un gâteau au chocolat|une soupe chaude|des pommes vertes|une chaise confortable|"
     "un journal|du lait et du sucre|une carte d'anniversaire",
     "dans le parc|au marché|à la gare|au centre-ville|à l'école|dans la cuisine|près de l'église|à la plage|"
     "dans le jardin|dans un petit village|à l'aéroport|devant la maison|dans la vieille ville|sur le pont|"
     "à l'hôtel|à la bibliothèque",
     "aujourd'hui|demain matin|samedi|ce soir|tous les jours|en été|la semaine prochaine|à huit heures|"
     "après le travail|dimanche|cet après-midi|après le petit déjeuner|lundi|à midi",
     "ma mère|mon frère|notre voisin|la maîtresse|sa fille|un ami|le vieil homme|Anna|mon grand-père|le médecin|"
     "ma sœur|le boulanger"),
    ("German", "Guten Morgen!|Hallo, wie geht es dir?|Guten Abend!|Vielen Dank.|Entschuldigung.|"
     "Freut mich, Sie kennenzulernen.",
     "Es regnet und der Wind ist kalt.|Heute scheint die Sonne.|Mein Zug fährt in zehn Minuten.|"
     "Wie viel kostet das?|Ich verstehe die Frage nicht.|Wir freuen uns sehr, hier zu sein.|Wie spät ist es?|"
     "Bis morgen!",
     "Ich kaufe {p} {o}.|{w} möchte {o} kaufen.|Haben Sie {o}?|{t} kaufen wir {o}.|Ich sehe {p} {o}.|"
     "{w} wartet {p}.|{t} arbeitet {w} {p}.|Wo finde ich {o}?|Ich hätte gern {o}, bitte.|"
     "{t} trifft sich die ganze Familie {p}.|{w} bringt {t} {o} mit.|Sind Sie {t} {p}?|Es ist kalt {p}.|"
     "Die Kinder spielen {p}.",
     "ein rotes Fahrrad|frisches Brot|ein neues Buch|eine Tasse Kaffee|zwei Fahrkarten|einen warmen Mantel|"
     "einen großen Regenschirm|Käse und Obst|ein kleines Geschenk|einen guten Wein|schwarze Schuhe|eine alte Uhr|"
     "gelbe Blumen|einen Stadtplan|ein Glas Wasser|ein blaues Kleid|ein günstiges Telefon|"
     "einen Schokoladenkuchen|heiße Suppe|grüne Äpfel|einen bequemen Stuhl|eine Zeitung|Milch und Zucker|"
     "eine Geburtstagskarte",
     "im Park|auf dem Markt|am Bahnhof|in der Innenstadt|in der Schule|in der Küche|neben der Kirche|am Strand|"
     "im Garten|in einem kleinen Dorf|am Flughafen|vor dem Haus|in der Altstadt|auf der Brücke|im Hotel|"
     "in der Bibliothek",
     "heute|morgen früh|am Samstag|heute Abend|jeden Tag|im Sommer|nächste Woche|um acht Uhr|nach der Arbeit|"
     "am Sonntag|heute Nachmittag|nach dem Frühstück|am Montag|am Mittag",
     "meine Mutter|mein Bruder|unser Nachbar|die Lehrerin|seine Tochter|ein Freund|der alte Mann|Anna|"
     "mein Großvater|die Ärztin|meine Schwester|der Bäcker"),
    ("Spanish", "¡Buenos días!|Hola, ¿cómo estás?|¡Buenas noches!|Muchas gracias.|Perdone.|Mucho gusto.",
     "Está lloviendo y el viento es frío.|Hoy hace sol.|Mi tren sale en diez minutos.|¿Cuánto cuesta?|"
     "No entiendo la pregunta.|Estamos muy contentos de estar aquí.|¿Qué hora es?|¡Hasta mañana!",
     "Compro {o} {p}.|{w} quiere comprar {o}.|¿Tiene usted {o}?|{t} vamos a comprar {o}.|Veo {o} {p}.|"
     "{w} está esperando {p}.|{t} {w} trabaja {p}.|¿Dónde puedo encontrar {o}?|Quisiera {o}, por favor.|"
     "{t} toda la familia se reúne {p}.|{w} va a traer {o} {t}.|¿Va a estar usted {p} {t}?|Hace frío {p}.|"
     "Los niños juegan {p}.",
     "una bicicleta roja|pan fresco|un libro nuevo|una taza de café|dos entradas|un abrigo grueso|"
     "un paraguas grande|queso y fruta|un pequeño regalo|un buen vino|zapatos negros|un reloj antiguo|"
     "flores amarillas|un mapa de la ciudad|un vaso de agua|un vestido azul|un teléfono barato|"
     "una tarta de chocolate|sopa caliente|manzanas verdes|una silla cómoda|un periódico|leche y azúcar|"
     "una tarjeta de cumpleaños",
     "en el parque|en el mercado|en la estación|en el centro de la ciudad|en la escuela|en la cocina|"
     "cerca de la iglesia|en la playa|en el jardín|en un pueblo pequeño|en el aeropuerto|delante de la casa|"
     "en el casco antiguo|en el puente|en el hotel|en la biblioteca",
     "hoy|mañana por la mañana|el sábado|esta noche|todos los días|en verano|la próxima semana|a las ocho|"
     "después del trabajo|el domingo|esta tarde|después del desayuno|el lunes|al mediodía",
     "mi madre|mi hermano|nuestro vecino|la maestra|su hija|un amigo|el anciano|Anna|mi abuelo|la doctora|"
     "mi hermana|el panadero"),
    ("Italian", "Buongiorno!|Ciao, come stai?|Buonasera!|Grazie mille.|Mi scusi.|Piacere di conoscerla.",
     "Piove e il vento è freddo.|Oggi splende il sole.|Il mio treno parte tra dieci minuti.|Quanto costa?|"
     "Non capisco la domanda.|Siamo molto felici di essere qui.|Che ore sono?|A domani!",
     "Sto comprando {o} {p}.|{w} vuole comprare {o}.|Avete {o}?|{t} compriamo {o}.|Vedo {o} {p}.|{w} aspetta {p}.|"
     "{t} {w} lavora {p}.|Dove posso trovare {o}?|Vorrei {o}, per favore.|"
     "{t} tutta la famiglia si ritrova {p}.|{w} porta {o} {t}.|Sarete {p} {t}?|Fa freddo {p}.|"
     "I bambini giocano {p}.",
     "una bicicletta rossa|pane fresco|un nuovo libro|una tazza di caffè|due biglietti|un cappotto caldo|"
     "un grande ombrello|formaggio e frutta|un piccolo regalo|un buon vino|scarpe nere|un vecchio orologio|"
     "fiori gialli|una mappa della città|un bicchiere d'acqua|un vestito blu|un telefono economico|"
     "una torta al cioccolato|una zuppa calda|mele verdi|una sedia comoda|un giornale|latte e zucchero|"
     "un biglietto di auguri",
     "nel parco|al mercato|alla stazione|in centro|a scuola|in cucina|vicino alla chiesa|in spiaggia|in giardino|"
     "in un piccolo paese|all'aeroporto|davanti alla casa|nella città vecchia|sul ponte|in albergo|in biblioteca",
     "oggi|domani mattina|sabato|stasera|ogni giorno|d'estate|la prossima settimana|alle otto|dopo il lavoro|"
     "domenica|questo pomeriggio|dopo colazione|lunedì|a mezzogiorno",
     "mia madre|mio fratello|il nostro vicino|la maestra|sua figlia|un amico|l'anziano signore|Anna|mio nonno|"
     "la dottoressa|mia sorella|il panettiere"),
    ("Portuguese", "Bom dia!|Olá, tudo bem?|Boa noite!|Muito obrigado.|Com licença.|Prazer em conhecê-lo.",
     "Está chovendo e o vento está frio.|Hoje o sol está brilhando.|Meu trem parte em dez minutos.|Quanto custa?|"
     "Não entendo a pergunta.|Estamos muito felizes de estar aqui.|Que horas são?|Até amanhã!",
     "Estou comprando {o} {p}.|{w} quer comprar {o}.|Você tem {o}?|{t} vamos comprar {o}.|Estou vendo {o} {p}.|"
     "{w} está esperando {p}.|{t} {w} trabalha {p}.|Onde posso encontrar {o}?|Eu queria {o}, por favor.|"
     "{t} toda a família se encontra {p}.|{w} vai trazer {o} {t}.|Você vai estar {p} {t}?|Faz frio {p}.|"
     "As crianças estão brincando {p}.",
     "uma bicicleta vermelha|pão fresco|um livro novo|uma xícara de café|dois bilhetes|um casaco quente|"
     "um guarda-chuva grande|queijo e frutas|um presente pequeno|um bom vinho|sapatos pretos|um relógio antigo|"
     "flores amarelas|um mapa da cidade|um copo de água|um vestido azul|um telefone barato|um bolo de chocolate|"
     "sopa quente|maçãs verdes|uma cadeira confortável|um jornal|leite e açúcar|um cartão de aniversário",
     "no parque|no mercado|na estação|no centro da cidade|na escola|na cozinha|perto da igreja|na praia|"
     "no jardim|em uma pequena vila|no aeroporto|em frente à casa|na cidade velha|na ponte|no hotel|na biblioteca",
     "hoje|amanhã de manhã|no sábado|hoje à noite|todos os dias|no verão|na próxima semana|às oito horas|"
     "depois do trabalho|no domingo|hoje à tarde|depois do café da manhã|na segunda-feira|ao meio-dia",
     "minha mãe|meu irmão|o nosso vizinho|a professora|a filha dele|um amigo|aquele senhor|Anna|meu avô|a médica|"
     "minha irmã|o padeiro"),
    ("Dutch", "Goedemorgen!|Hallo, hoe gaat het?|Goedenavond!|Dank u wel.|Neem me niet kwalijk.|"
     "Aangenaam kennis te maken.",
     "Het regent en de wind is koud.|Vandaag schijnt de zon.|Mijn trein vertrekt over tien minuten.|"
     "Hoeveel kost dat?|Ik begrijp de vraag niet.|We zijn heel blij dat we hier zijn.|Hoe laat is het?|Tot morgen!",
     "Ik koop {o} {p}.|{w} wil {o} kopen.|Heeft u {o}?|{t} kopen we {o}.|Ik zie {o} {p}.|{w} wacht {p}.|"
     "{t} werkt {w} {p}.|Waar kan ik {o} vinden?|Ik wil graag {o}, alstublieft.|"
     "{t} komt de hele familie {p} bij elkaar.|{w} neemt {t} {o} mee.|Bent u {t} {p}?|Het is koud {p}.|"
     "De kinderen spelen {p}.",
     "een rode fiets|vers brood|een nieuw boek|een kopje koffie|twee kaartjes|een warme jas|een grote paraplu|"
     "kaas en fruit|een klein cadeau|een goede wijn|zwarte schoenen|een oude klok|gele bloemen|"
     "een kaart van de stad|een glas water|een blauwe jurk|een goedkope telefoon|een chocoladetaart|warme soep|"
     "groene appels|een comfortabele stoel|een krant|melk en suiker|een verjaardagskaart",
     "in het park|op de markt|op het station|in het centrum|op school|in de keuken|naast de kerk|op het strand|"
     "in de tuin|in een klein dorp|op het vliegveld|voor het huis|in de oude stad|op de brug|in het hotel|"
     "in de bibliotheek",
     "vandaag|morgenochtend|op zaterdag|vanavond|elke dag|in de zomer|volgende week|om acht uur|na het werk|"
     "op zondag|vanmiddag|na het ontbijt|op maandag|rond de middag",
     "mijn moeder|mijn broer|onze buurman|de juf|zijn dochter|een vriend|de oude man|Anna|mijn opa|de dokter|"
     "mijn zus|de bakker"),
    ("Swedish", "God morgon!|Hej, hur mår du?|God kväll!|Tack så mycket.|Ursäkta mig.|Trevligt att träffas.",
     "Det regnar och vinden är kall.|Solen skiner i dag.|Mitt tåg går om tio minuter.|Hur mycket kostar det?|"
     "Jag förstår inte frågan.|Vi är mycket glada att vara här.|Vad är klockan?|Vi ses i morgon!",
     "Jag köper {o} {p}.|{w} vill köpa {o}.|Har du {o}?|{t} köper vi {o}.|Jag ser {o} {p}.|{w} väntar {p}.|"
     "{t} arbetar {w} {p}.|Var kan jag hitta {o}?|Jag skulle vilja ha {o}, tack.|"
     "{t} träffas hela familjen {p}.|{w} tar med sig {o} {t}.|Är du {p} {t}?|Det är kallt {p}.|"
     "Barnen leker {p}.",
     "en röd cykel|färskt bröd|en ny bok|en kopp kaffe|två biljetter|en varm kappa|ett stort paraply|"
     "ost och frukt|en liten present|ett gott vin|svarta skor|en gammal klocka|gula blommor|"
     "en karta över staden|ett glas vatten|en blå klänning|en billig telefon|en chokladtårta|varm soppa|"
     "gröna äpplen|en bekväm stol|en tidning|mjölk och socker|ett födelsedagskort",
     "i parken|på torget|på stationen|i centrum|i skolan|i köket|bredvid kyrkan|på stranden|i trädgården|"
     "i en liten by|på flygplatsen|framför huset|i gamla stan|på bron|på hotellet|på biblioteket",
     "i dag|i morgon bitti|på lördag|i kväll|varje dag|på sommaren|nästa vecka|klockan åtta|efter jobbet|"
     "på söndag|i eftermiddag|efter frukosten|på måndag|mitt på dagen",
     "min mamma|min bror|vår granne|läraren|hans dotter|en vän|den gamle mannen|Anna|min farfar|läkaren|"
     "min syster|bagaren"),
    ("Polish", "Dzień dobry!|Cześć, jak się masz?|Dobry wieczór!|Dziękuję bardzo.|Przepraszam.|Miło mi pana poznać.",
     "Pada deszcz i wieje zimny wiatr.|Dzisiaj świeci słońce.|Mój pociąg odjeżdża za dziesięć minut.|"
     "Ile to kosztuje?|Nie rozumiem pytania.|Bardzo się cieszymy, że tu jesteśmy.|Która jest godzina?|"
     "Do zobaczenia jutro!",
     "Kupuję {o} {p}.|{w} chce kupić {o}.|Czy mają państwo {o}?|{t} kupujemy {o}.|Widzę {o} {p}.|{w} czeka {p}.|"
     "{t} {w} pracuje {p}.|Gdzie mogę kupić {o}?|Poproszę {o}.|{t} cała rodzina spotyka się {p}.|"
     "{w} przyniesie {o} {t}.|Czy będzie pan {p} {t}?|{p} jest zimno.|Dzieci bawią się {p}.",
     "czerwony rower|świeży chleb|nową książkę|filiżankę kawy|dwa bilety|ciepły płaszcz|duży parasol|"
     "ser i owoce|mały prezent|dobre wino|czarne buty|stary zegar|żółte kwiaty|plan miasta|szklankę wody|"
     "niebieską sukienkę|tani telefon|ciasto czekoladowe|gorącą zupę|zielone jabłka|wygodne krzesło|gazetę|"
     "mleko i cukier|kartkę urodzinową",
     "w parku|na rynku|na dworcu|w centrum miasta|w szkole|w kuchni|obok kościoła|na plaży|w ogrodzie|"
     "w małej wsi|na lotnisku|przed domem|na starym mieście|na moście|w hotelu|w bibliotece",
     "dzisiaj|jutro rano|w sobotę|dziś wieczorem|codziennie|latem|w przyszłym tygodniu|o ósmej|po pracy|"
     "w niedzielę|dziś po południu|po śniadaniu|w poniedziałek|w południe",
     "moja mama|mój brat|nasz sąsiad|nauczycielka|jego córka|kolega|ten starszy pan|Anna|mój dziadek|pani doktor|"
     "moja siostra|piekarz"),
    ("Turkish", "Günaydın!|Merhaba, nasılsın?|İyi akşamlar!|Çok teşekkür ederim.|Affedersiniz.|"
     "Tanıştığımıza memnun oldum.",
     "Yağmur yağıyor ve rüzgâr soğuk.|Bugün güneş parlıyor.|Trenim on dakika sonra kalkıyor.|Bu ne kadar?|"
     "Soruyu anlamıyorum.|Burada olduğumuz için çok mutluyuz.|Saat kaç?|Yarın görüşürüz!",
     "{p} {o} alıyorum.|{w} {o} almak istiyor.|Sizde {o} var mı?|{t} {o} alacağız.|{p} {o} görüyorum.|"
     "{w} {p} bekliyor.|{t} {w} {p} çalışıyor.|Nerede {o} bulabilirim?|Bana {o} getirir misiniz?|"
     "{t} bütün aile {p} buluşuyor.|{w} {t} {o} getirecek.|{t} {p} olacak mısınız?|{p} hava soğuk.|"
     "Çocuklar {p} oynuyor.",
     "kırmızı bir bisiklet|taze ekmek|yeni bir kitap|bir fincan kahve|iki bilet|kalın bir palto|"
     "büyük bir şemsiye|peynir ve meyve|küçük bir hediye|iyi bir şarap|siyah ayakkabı|eski bir saat|"
     "sarı çiçekler|bir şehir haritası|bir bardak su|mavi bir elbise|ucuz bir telefon|çikolatalı pasta|"
     "sıcak çorba|yeşil elma|rahat bir sandalye|bir gazete|süt ve şeker|bir doğum günü kartı",
     "parkta|pazarda|istasyonda|şehir merkezinde|okulda|mutfakta|kilisenin yanında|plajda|bahçede|"
     "küçük bir köyde|havaalanında|evin önünde|eski şehirde|köprüde|otelde|kütüphanede",
     "bugün|yarın sabah|cumartesi günü|bu akşam|her gün|yazın|gelecek hafta|saat sekizde|işten sonra|"
     "pazar günü|öğleden sonra|kahvaltıdan sonra|pazartesi günü|öğlen",
     "annem|kardeşim|komşumuz|öğretmen|onun kızı|bir arkadaşım|yaşlı adam|Anna|dedem|doktor|ablam|fırıncı"),
)}
