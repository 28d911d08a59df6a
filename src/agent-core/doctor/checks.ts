import type { DoctorSubject } from '../../contract/doctor.ts'
import { clusterChecks } from './cluster-checks.ts'
import type { Check } from './doctor.ts'
import { machineChecks } from './machine-checks.ts'
import { relayChecks } from './relay-checks.ts'
import { agentChecks, servingChecks } from './serving-checks.ts'

/** All that the doctor asks, in the order of a report. */
export const doctorChecks: readonly (readonly [DoctorSubject, readonly Check[]])[] = [
  ['agent', agentChecks],
  ['cluster', clusterChecks],
  ['machine', machineChecks],
  ['serving', [...servingChecks, ...relayChecks]],
]
