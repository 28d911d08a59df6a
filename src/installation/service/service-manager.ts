import type { LastExit } from '../launchctl.ts'
import type { ServiceKind } from './service-names.ts'
import type { ServicePlan } from './service-plan.ts'
import type { UnitContent } from './unit-text.ts'

/** What launchd or systemd knows of the service. */
export interface ServiceState {
  /** It is started with the machine or the login, and again where it ends with an error. */
  readonly isLoaded: boolean
  /** Absent where it does not run. */
  readonly pid?: number
  /** Absent where it has not ended yet; systemd forgets it as soon as the next one runs. */
  readonly lastExit?: LastExit
  /** How often it was started anew after an error; absent where the manager does not say. */
  readonly restarts?: number
}

/** launchd or systemd, as far as the service needs them. All but the texts throw InstallationError. */
export interface ServiceManager {
  readonly kind: ServiceKind
  readonly file: string
  /** Of the service as the manager calls it. */
  readonly name: string
  readonly title: string
  /** Completes "The service starts …". */
  readonly starts: string
  text(plan: ServicePlan): string
  /** Who may read the file of this service. */
  fileMode(plan: Pick<ServicePlan, 'environment'>): number
  /** Throws UnitTextError. */
  read(text: string): UnitContent
  /** Whether the manager can be asked at all, and this process may change what it runs. */
  check(): Promise<void>
  state(): Promise<ServiceState>
  /** Takes the file as it is now, and starts the service. */
  load(): Promise<void>
  start(): Promise<void>
  /** Begins to end what runs, in good order, and forgets the file; `forGood`: it is not started with the machine any more. */
  unload(how: { readonly forGood: boolean }): Promise<void>
  /** Ends the agent alone, at once. */
  kill(): Promise<void>
  /** After the file is gone, so that nothing is said of it any more. */
  forget(): Promise<void>
}
