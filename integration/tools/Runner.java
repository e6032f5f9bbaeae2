import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's tools in one JVM, so that a hundred of them do not cost a hundred starts. A request is an id, the main
 * class (or, without one, the wish that the call of that id end as by SIGTERM), arguments and standard input; the answer
 * is the id, the exit code, standard output and error. Calls may overlap.
 *
 * What a process has of its own, its streams and its end, belongs to the threads that a call starts.
 */
public class Runner {
    private static final InheritableThreadLocal<Call> CURRENT = new InheritableThreadLocal<>();

    private static final class Call {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final InputStream in;
        final List<Runnable> hooks = new ArrayList<>();
        final ThreadGroup threads = new ThreadGroup("call");
        final CountDownLatch ended = new CountDownLatch(1);
        private Integer code;

        Call(byte[] in) {
            this.in = new ByteArrayInputStream(in);
        }

        /** The first end counts; a process runs its shutdown hooks then, and its other threads see no more of it. */
        void end(int code) {
            synchronized (this) {
                if (this.code != null) return;
                this.code = code;
            }
            for (Runnable hook : hooks) hook.run();
            for (Thread hook : takeRuntimeHooks(threads)) {
                hook.start();
                join(hook);
            }
            ended.countDown();
        }
    }

    /** Some tools give their shutdown hooks to Java itself, which then must not run them at the end of this JVM. */
    private static List<Thread> takeRuntimeHooks(ThreadGroup threads) {
        List<Thread> taken = new ArrayList<>();
        try {
            Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
            field.setAccessible(true);
            for (Object hook : new ArrayList<>(((Map<?, ?>) field.get(null)).keySet())) {
                Thread thread = (Thread) hook;
                if (thread.getThreadGroup() == threads && Runtime.getRuntime().removeShutdownHook(thread)) taken.add(thread);
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return taken;
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Ends the call of this thread; what follows in the tool must not run, neither its catch nor its finally. */
    private static void exit(int code, String message) {
        if (message != null) System.err.println(message);
        CURRENT.get().end(code);
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException e) {
                // Still ended.
            }
        }
    }

    private static final class Streams extends OutputStream {
        private final boolean err;

        Streams(boolean err) {
            this.err = err;
        }

        private OutputStream stream() {
            Call call = CURRENT.get();
            return call == null ? OutputStream.nullOutputStream() : err ? call.err : call.out;
        }

        @Override
        public void write(int b) throws IOException {
            stream().write(b);
        }

        @Override
        public void write(byte[] b, int off, int len) throws IOException {
            stream().write(b, off, len);
        }
    }

    private static final class Input extends InputStream {
        @Override
        public int read() throws IOException {
            return CURRENT.get().in.read();
        }

        @Override
        public int read(byte[] b, int off, int len) throws IOException {
            return CURRENT.get().in.read(b, off, len);
        }
    }

    private static void run(String name, String[] args) {
        int code = 0;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            System.err.print("Exception in thread \"main\" ");
            e.getCause().printStackTrace();
            code = 1;
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            code = 1;
        }
        CURRENT.get().end(code);
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        return in.readNBytes(in.readInt());
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    public static void main(String[] ignored) throws Exception {
        DataInputStream requests = new DataInputStream(new FileInputStream(FileDescriptor.in));
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        System.setIn(new Input());
        System.setOut(new PrintStream(new Streams(false), true));
        System.setErr(new PrintStream(new Streams(true), true));
        Exit.setExitProcedure(Runner::exit);
        Exit.setHaltProcedure(Runner::exit);
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        Map<Integer, Call> calls = new ConcurrentHashMap<>();
        while (true) {
            int id;
            try {
                id = requests.readInt();
            } catch (EOFException e) {
                System.exit(0);
                return;
            }
            String name = new String(readBytes(requests), StandardCharsets.UTF_8);
            String[] args = new String[requests.readInt()];
            for (int i = 0; i < args.length; i++) args[i] = new String(readBytes(requests), StandardCharsets.UTF_8);
            byte[] input = readBytes(requests);
            if (name.isEmpty()) {
                Call call = calls.get(id);
                if (call != null) daemon(() -> call.end(143), call);
                continue;
            }
            Call call = new Call(input);
            calls.put(id, call);
            daemon(() -> run(name, args), call);
            daemon(() -> {
                try {
                    call.ended.await();
                    calls.remove(id);
                    synchronized (answers) {
                        answers.writeInt(id);
                        answers.writeInt(call.code);
                        writeBytes(answers, call.out.toByteArray());
                        writeBytes(answers, call.err.toByteArray());
                        answers.flush();
                    }
                } catch (IOException | InterruptedException e) {
                    System.exit(1);
                }
            }, null);
        }
    }

    private static void daemon(Runnable body, Call call) {
        Thread thread = new Thread(call == null ? null : call.threads, () -> {
            CURRENT.set(call);
            body.run();
        }, "main");
        thread.setDaemon(true);
        thread.start();
    }
}
