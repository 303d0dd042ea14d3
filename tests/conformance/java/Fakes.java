import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiFunction;
import javassist.util.proxy.MethodHandler;
import javassist.util.proxy.ProxyFactory;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/**
 * Kafka's objects, whatever their version: classes move to other packages, constructors and methods
 * get parameters. An argument takes the first parameter whose type fits; what is left gets a default
 * (0, false, nothing, or an object whose methods do nothing).
 */
final class Fakes {
    private static final Map<Class<?>, Map<String, Known>> METHODS = new HashMap<>();
    private static final Map<Class<?>, Object> ZEROS = Map.of(boolean.class, false, byte.class, (byte) 0,
        short.class, (short) 0, int.class, 0, long.class, 0L, float.class, 0f, double.class, 0d, char.class, ' ');

    /** A method, found once. */
    record Known(Method method, Class<?>[] types) {
    }

    private Fakes() {
    }

    /** The class under the first of its names that this version knows. */
    static Class<?> found(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException error) {
                continue;
            }
        }
        throw new IllegalStateException(Arrays.toString(names));
    }

    /** An object of the class, made without a constructor; a handler answers its methods. */
    static Object stub(Class<?> type, MethodHandler handler) throws Exception {
        ProxyFactory factory = new ProxyFactory();
        factory.setSuperclass(type);
        factory.setFilter(method -> !method.getName().equals("finalize"));
        Object made = allocate(factory.createClass());
        ((javassist.util.proxy.Proxy) made).setHandler(handler);
        return made;
    }

    /** An object of the class that no constructor has filled. */
    static Object allocate(Class<?> type) throws Exception {
        Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return unsafe.get(null).getClass().getMethod("allocateInstance", Class.class).invoke(unsafe.get(null), type);
    }

    /** An object of an interface or a class that answers by method name and arguments. */
    static Object answering(Class<?> type, BiFunction<String, Object[], Object> answers) throws Exception {
        if (!type.isInterface()) {
            return stub(type, (self, method, proceed, arguments) ->
                orZero(method.getReturnType(), answers.apply(method.getName(), arguments)));
        }
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) ->
            orZero(method.getReturnType(), answers.apply(method.getName(), arguments)));
    }

    private static Object orZero(Class<?> type, Object answer) {
        return answer == null ? ZEROS.get(type) : answer;
    }

    static Object make(Class<?> type, Object... offered) throws Exception {
        Constructor<?> widest = Arrays.stream(type.getDeclaredConstructors()).
            filter(made -> Modifier.isPublic(made.getModifiers())).
            max((one, other) -> one.getParameterCount() - other.getParameterCount()).get();
        return widest.newInstance(arguments(widest.getParameterTypes(), offered));
    }

    /** An object by the widest of all constructors, whoever may call it. */
    static Object hidden(Class<?> type, Object... offered) throws Exception {
        Constructor<?> widest = Arrays.stream(type.getDeclaredConstructors()).
            max((one, other) -> one.getParameterCount() - other.getParameterCount()).get();
        widest.setAccessible(true);
        return widest.newInstance(arguments(widest.getParameterTypes(), offered));
    }

    /** Calls a method of an object, or a static one of a class. */
    static Object call(Object of, String name, Object... offered) throws Exception {
        boolean isStatic = of instanceof Class;
        Class<?> type = isStatic ? (Class<?>) of : of.getClass();
        Known known = METHODS.computeIfAbsent(type, none -> new HashMap<>()).computeIfAbsent(name, none -> {
            Method widest = widest(type, name);
            return new Known(widest, widest.getParameterTypes());
        });
        try {
            return known.method.invoke(isStatic ? null : of, arguments(known.types, offered));
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception) throw (Exception) error.getCause();
            throw error;
        }
    }

    private static Method widest(Class<?> type, String name) {
        List<Method> named = new ArrayList<>();
        for (Class<?> at = type; at != null; at = at.getSuperclass()) {
            for (Method method : at.getDeclaredMethods()) {
                if (method.getName().equals(name) && !method.isBridge()) named.add(method);
            }
            if (!named.isEmpty()) break;
        }
        for (Method method : type.getMethods()) {
            if (named.isEmpty() && method.getName().equals(name)) named.add(method);
        }
        Method widest = named.stream().
            max((one, other) -> one.getParameterCount() - other.getParameterCount()).
            orElseThrow(() -> new IllegalStateException(type + " has no " + name));
        widest.setAccessible(true);
        return widest;
    }

    private static Object[] arguments(Class<?>[] types, Object[] offered) throws Exception {
        List<Object> left = new ArrayList<>(Arrays.asList(offered));
        Object[] given = new Object[types.length];
        for (int at = 0; at < types.length; at++) {
            Class<?> type = types[at].isPrimitive() ? ZEROS.get(types[at]).getClass() : types[at];
            int fits = 0;
            while (fits < left.size() && !type.isInstance(left.get(fits))) fits++;
            given[at] = fits < left.size() ? left.remove(fits) : nothing(types[at]);
        }
        if (!left.isEmpty()) throw new IllegalStateException("not taken by " + Arrays.toString(types) + ": " + left);
        return given;
    }

    private static Object nothing(Class<?> type) throws Exception {
        if (type.isPrimitive()) return ZEROS.get(type);
        if (type == Option.class) return Option.empty();
        if (type == Optional.class) return Optional.empty();
        if (type == String.class) return "";
        if (type == List.class) return List.of();
        return type.isInterface() ? answering(type, (name, arguments) -> null) : null;
    }

    /** A component of a record, or a field. */
    static Object read(Object of, String name) throws Exception {
        return of.getClass().isRecord() ? call(of, name) : of.getClass().getField(name).get(of);
    }

    static void set(Object of, String name, Object value) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(of, field.getType() == Option.class ? Option.apply(value) : value);
    }

    static Optional<?> optional(Object value) {
        return value instanceof Option ? OptionConverters.toJava((Option<?>) value) : (Optional<?>) value;
    }

    static Set<?> set(Object value) {
        return value instanceof Set ? (Set<?>) value
            : new HashSet<Object>(CollectionConverters.asJava((scala.collection.Set<?>) value));
    }

    static Map<?, ?> map(Object value) {
        return value instanceof Map ? (Map<?, ?>) value
            : CollectionConverters.asJava((scala.collection.Map<?, ?>) value);
    }
}
