import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON that the harness has written: maps, lists, strings, numbers, booleans and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Numbers are Long if they are whole, else Double. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.skipBlanks();
        if (json.at != text.length()) {
            throw new IllegalArgumentException("text after the JSON value at " + json.at);
        }
        return value;
    }

    private Object value() {
        skipBlanks();
        char first = text.charAt(at);
        switch (first) {
            case '{':
                return object();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        expect('{');
        if (!next('}')) {
            do {
                skipBlanks();
                String key = string();
                expect(':');
                members.put(key, value());
            } while (next(','));
            expect('}');
        }
        return members;
    }

    private List<Object> list() {
        List<Object> items = new ArrayList<>();
        expect('[');
        if (!next(']')) {
            do {
                items.add(value());
            } while (next(','));
            expect(']');
        }
        return items;
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        expect('"');
        while (true) {
            char one = text.charAt(at++);
            if (one == '"') {
                return found.toString();
            }
            found.append(one == '\\' ? escaped() : one);
        }
    }

    private char escaped() {
        char one = text.charAt(at++);
        switch (one) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return one;
        }
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        BigDecimal number = new BigDecimal(text.substring(start, at));
        boolean whole = number.scale() <= 0;
        return whole ? (Object) number.longValueExact() : (Object) number.doubleValue();
    }

    private Object word(String word, Object meaning) {
        if (!text.startsWith(word, at)) {
            throw new IllegalArgumentException("no JSON value at " + at);
        }
        at += word.length();
        return meaning;
    }

    private void expect(char wanted) {
        if (!next(wanted)) {
            throw new IllegalArgumentException("no " + wanted + " at " + at);
        }
    }

    private boolean next(char wanted) {
        skipBlanks();
        boolean found = at < text.length() && text.charAt(at) == wanted;
        at += found ? 1 : 0;
        return found;
    }

    private void skipBlanks() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }
}
