import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.ZipFile;
import javassist.CannotCompileException;
import javassist.ClassPool;
import javassist.CtBehavior;
import javassist.CtClass;
import javassist.CtField;
import javassist.CtNewMethod;
import javassist.Modifier;
import javassist.NotFoundException;
import javassist.expr.ExprEditor;
import javassist.expr.FieldAccess;
import javassist.expr.MethodCall;

/**
 * Applies edits, given as data, to the classes of a Kafka release: {@code java Patch EDITS.json LIBS OUT}.
 *
 * <p>LIBS is the folder of the release's jars. OUT is an existing folder that receives a copy of every jar that an edit
 * changes; the other jars are not copied. EDITS is an array of objects:
 *
 * <ul>
 *   <li>{@code class}: binary name, such as {@code kafka.cluster.Partition};
 *   <li>{@code how}: {@code before}, {@code after}, {@code body} (Javassist source for a whole method), {@code call}
 *       and {@code field} (source that replaces each call or access of {@code target} inside a method), {@code member}
 *       (a new field or method; a method ends in a brace), {@code open} (a private method or constructor of a nested
 *       class becomes callable from its neighbours, which Javassist's compiler refuses otherwise);
 *   <li>{@code method}: its name; {@code *} stands for anything, since compilers number their lambdas; the class's
 *       constructor is {@code <init>}; {@code descriptor}: JVM descriptor when the name alone is not unique;
 *   <li>{@code target}: {@code Class.name}, simple or qualified, of a call or a field; {@code sites}: how many places
 *       must match (default 1);
 *   <li>{@code source}: what is put there, in Javassist's Java.
 * </ul>
 *
 * <p>Exits with 1 and one sentence on standard error if an edit does not apply exactly as described: an unchanged
 * release in place of a mutant would prove nothing.
 */
public final class Patch {
    private final ClassPool pool = new ClassPool(true);
    private final Map<String, CtClass> changed = new LinkedHashMap<>();

    private Patch(List<Path> jars) throws NotFoundException {
        for (Path jar : jars) {
            pool.appendClassPath(jar.toString());
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            throw new IllegalArgumentException("usage: java Patch EDITS.json LIBS OUT");
        }
        List<Path> jars = jarsIn(Path.of(arguments[1]));
        Patch patch = new Patch(jars);
        for (JsonNode edit : new ObjectMapper().readTree(Path.of(arguments[0]).toFile())) {
            try {
                patch.apply(edit);
            } catch (CannotCompileException | NotFoundException | IllegalStateException cause) {
                System.err.println("the edit of " + text(edit, "class") + "." + edit.path("method").asText("")
                    + " does not apply: " + cause.getMessage());
                System.exit(1);
            }
        }
        Path out = Path.of(arguments[2]);
        patch.write(jars, out);
        patch.verify(jars, out);
    }

    private static List<Path> jarsIn(Path libs) throws IOException {
        try (Stream<Path> all = Files.list(libs)) {
            return all.filter(path -> path.toString().endsWith(".jar")).sorted().toList();
        }
    }

    private static String text(JsonNode edit, String key) {
        JsonNode value = edit.get(key);
        if (value == null || !value.isTextual()) {
            throw new IllegalStateException("it has no \"" + key + "\"");
        }
        return value.asText();
    }

    private void apply(JsonNode edit) throws CannotCompileException, NotFoundException {
        CtClass owner = pool.get(text(edit, "class"));
        String how = text(edit, "how");
        String source = how.equals("open") ? "" : text(edit, "source");
        if (how.equals("member")) {
            addMember(owner, source.strip());
        } else {
            List<CtBehavior> behaviors = behaviorsOf(owner, text(edit, "method"), edit.path("descriptor").asText(null));
            switch (how) {
                case "before" -> only(behaviors).insertBefore(source);
                case "after" -> only(behaviors).insertAfter(source);
                case "body" -> only(behaviors).setBody(source);
                case "call", "field" -> replaceSites(behaviors, edit, how, source);
                case "open" -> only(behaviors).setModifiers(Modifier.setPackage(only(behaviors).getModifiers()));
                default -> throw new IllegalStateException("\"how\" is " + how);
            }
        }
        changed.put(owner.getName(), owner);
    }

    private static void addMember(CtClass owner, String source) throws CannotCompileException {
        if (source.endsWith("}")) {
            owner.addMethod(CtNewMethod.make(source, owner));
        } else {
            owner.addField(CtField.make(source, owner));
        }
    }

    private static List<CtBehavior> behaviorsOf(CtClass owner, String name, String descriptor) {
        Pattern wanted = Pattern.compile(Pattern.quote(name).replace("*", "\\E.*\\Q"));
        List<CtBehavior> found = new ArrayList<>();
        for (CtBehavior behavior : owner.getDeclaredBehaviors()) {
            boolean named = wanted.matcher(behavior.getMethodInfo().getName()).matches();
            boolean described = descriptor == null || behavior.getSignature().equals(descriptor);
            if (named && described && !behavior.isEmpty()) {
                found.add(behavior);
            }
        }
        return found;
    }

    private static CtBehavior only(List<CtBehavior> behaviors) {
        if (behaviors.size() != 1) {
            throw new IllegalStateException(behaviors.size() + " methods match: "
                + behaviors.stream().map(CtBehavior::getLongName).toList());
        }
        return behaviors.get(0);
    }

    private static void replaceSites(List<CtBehavior> behaviors, JsonNode edit, String how, String source)
            throws CannotCompileException {
        String target = text(edit, "target");
        List<String> sites = new ArrayList<>();
        ExprEditor editor = new ExprEditor() {
            @Override
            public void edit(MethodCall call) throws CannotCompileException {
                if (how.equals("call") && isNamed(target, call.getClassName(), call.getMethodName())) {
                    sites.add(call.where().getName() + ":" + call.getLineNumber());
                    call.replace(source);
                }
            }

            @Override
            public void edit(FieldAccess access) throws CannotCompileException {
                if (how.equals("field") && isNamed(target, access.getClassName(), access.getFieldName())) {
                    sites.add(access.where().getName() + ":" + access.getLineNumber());
                    access.replace(source);
                }
            }
        };
        for (CtBehavior behavior : behaviors) {
            behavior.instrument(editor);
        }
        int wanted = edit.path("sites").asInt(1);
        if (sites.size() != wanted) {
            throw new IllegalStateException(target + " is used " + sites.size() + " times, not " + wanted + ": " + sites);
        }
    }

    private static boolean isNamed(String target, String owner, String member) {
        String full = owner + "." + member;
        return full.equals(target) || full.endsWith("." + target);
    }

    private void write(List<Path> jars, Path out) throws IOException, CannotCompileException {
        for (CtClass owner : changed.values()) {
            String entry = owner.getName().replace('.', '/') + ".class";
            Path jar = jarThatHolds(jars, entry);
            Path copy = out.resolve(jar.getFileName());
            if (!Files.exists(copy)) {
                Files.copy(jar, copy);
            }
            try (FileSystem zip = FileSystems.newFileSystem(copy)) {
                Files.write(zip.getPath(entry), owner.toBytecode());
            }
            System.out.println(copy.getFileName() + " " + owner.getName());
        }
    }

    /** Loads the changed classes, so that bytecode that a virtual machine refuses fails here and not in a broker. */
    private void verify(List<Path> jars, Path out) throws IOException, ReflectiveOperationException {
        List<URL> path = new ArrayList<>();
        for (Path jar : jars) {
            Path copy = out.resolve(jar.getFileName());
            path.add((Files.exists(copy) ? copy : jar).toUri().toURL());
        }
        try (URLClassLoader loader = new URLClassLoader(path.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
            for (String name : changed.keySet()) {
                Class.forName(name, true, loader);
            }
        }
    }

    private static Path jarThatHolds(List<Path> jars, String entry) throws IOException {
        for (Path jar : jars) {
            if (holds(jar, entry)) {
                return jar;
            }
        }
        throw new IllegalStateException("no jar holds " + entry);
    }

    private static boolean holds(Path jar, String entry) throws IOException {
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            return zip.getEntry(entry) != null;
        }
    }
}
