package org.apache.kafka.controller;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.Replicas;
import org.apache.kafka.metadata.placement.DefaultDirProvider;
import org.apache.kafka.metadata.placement.PartitionAssignment;

/** Asks Kafka's classes of reassignments, which only their own package may use. */
public class Reassignments {
    /** What a request makes of two assignments, and how the reassignment of a partition ends. */
    public static String answer(
            List<Integer> current, List<Integer> target, PartitionRegistration partition)
            throws ReflectiveOperationException {
        DefaultDirProvider directory = broker -> Uuid.ONE_UUID;
        PartitionReassignmentReplicas requested = new PartitionReassignmentReplicas(
            new PartitionAssignment(current, directory), new PartitionAssignment(target, directory));
        PartitionReassignmentReplicas moving = new PartitionReassignmentReplicas(
            Replicas.toList(partition.removingReplicas),
            Replicas.toList(partition.addingReplicas),
            Replicas.toList(partition.replicas));
        Optional<PartitionReassignmentReplicas.CompletedReassignment> completed =
            moving.maybeCompleteReassignment(Replicas.toList(partition.isr));
        return "removing=" + requested.removing() +
            " adding=" + requested.adding() +
            " replicas=" + requested.replicas() +
            " moving=" + moving.isReassignmentInProgress() +
            " completed=" + (completed.isEmpty() ? "no" : parts(completed.get())) +
            " original=" + moving.originalReplicas() +
            " reverted=" + reverted(partition);
    }

    /** It has fields; since 4.3 it is a record, whose fields are private. */
    private static String parts(Object completed) throws ReflectiveOperationException {
        StringBuilder text = new StringBuilder();
        for (String name : new String[] {"replicas", "isr"}) {
            Field field = completed.getClass().getDeclaredField(name);
            field.setAccessible(true);
            text.append(text.length() == 0 ? "" : "/").append(field.get(completed));
        }
        return text.toString();
    }

    private static String reverted(PartitionRegistration partition) {
        try {
            PartitionReassignmentRevert revert = new PartitionReassignmentRevert(partition);
            return revert.replicas() + "/" + revert.isr() + "/" + revert.unclean();
        } catch (InvalidReplicaAssignmentException refused) {
            return "refused";
        }
    }
}
