import java.util.concurrent.locks.LockSupport;

/** Ends this process when the harness that started it is gone; see `program.py`. */
final class Guard {
    private static final int EXITED = 70;
    private static final long LOOK_NS = 1_000_000_000L;
    private static final long GRACE_NS = 15_000_000_000L;

    private final long parent;
    private volatile boolean orphaned;
    private volatile Client client;

    /** Works from now on. */
    Guard(long parent) {
        this.parent = parent;
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), sun.misc.SignalHandler.SIG_IGN);
        sun.misc.Signal.handle(new sun.misc.Signal("TERM"), signal -> terminate());
        sun.misc.Signal.handle(
                new sun.misc.Signal("USR1"), signal -> Runtime.getRuntime().halt(EXITED));
        Thread watch = new Thread(this::watch, "ackproof-orphan-guard");
        watch.setDaemon(true);
        watch.start();
    }

    boolean orphaned() {
        return orphaned;
    }

    /** SIGTERM stops this client; before, it ends the process. */
    void stops(Client started) {
        client = started;
    }

    private void terminate() {
        if (client == null) {
            Runtime.getRuntime().halt(EXITED);
        }
        client.terminate();
    }

    /** Ends this process as kill(1) with SIGKILL does. */
    static void kill() {
        try { // no Java code can send a signal that the JVM does not handle
            String pid = String.valueOf(ProcessHandle.current().pid());
            new ProcessBuilder("kill", "-KILL", pid).start().waitFor();
        } catch (java.io.IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private void watch() {
        while (ProcessHandle.current().parent().map(ProcessHandle::pid).orElse(-1L) == parent) {
            LockSupport.parkNanos(LOOK_NS);
        }
        orphaned = true;
        LockSupport.parkNanos(GRACE_NS);
        Runtime.getRuntime().halt(EXITED);
    }
}
