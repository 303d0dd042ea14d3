/** A client's end for a reason that the harness reports: its message, and perhaps what to do. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    Failure(String message, String hint) {
        super(hint.isEmpty() ? message : message + "\n  " + hint);
    }
}
