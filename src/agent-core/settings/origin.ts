import type { SettingOrigin } from '../../contract/settings.ts'
import type { AgentSettingName, AgentSettings } from './settings.ts'

/** Where the value comes from that counts. */
export function originOf(
  name: AgentSettingName,
  { givenByFlags, startFile }: AgentSettings,
  isPersons: boolean,
): SettingOrigin {
  if (givenByFlags.includes(name)) return 'flag'
  if (isPersons) return 'person'
  return startFile?.states.includes(name) === true ? 'startFile' : 'default'
}
