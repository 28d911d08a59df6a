import type { SleepPolicy } from '../../../contract/settings-table.ts'
import type { PowerSupply } from '../../platform/power-supply.ts'

/** Whether models that work keep the system awake. A supply that is not known may be a battery. */
export function mayKeepAwake(policy: SleepPolicy, source: PowerSupply['source'] | undefined): boolean {
  switch (policy) {
    case 'never':
      return false
    case 'on-mains':
      return source === 'mains'
    case 'while-serving':
      return true
  }
}
