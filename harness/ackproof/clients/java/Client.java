import java.io.IOException;

/** A client loop. */
interface Client {
    /** Works until a bound or a stop. */
    void run() throws IOException;

    /** Stops at the next iteration. A signal handler may call this. */
    void terminate();
}
