import type { CommandInput } from '../contract/commands.ts'
import { useWindow } from './store.ts'

/** How a button stands that asks for a command: its own request is under way, or it cannot be pressed. A pending button keeps the focus. */
export function usePressed(about: string, command: CommandInput | undefined) {
  const asked = useWindow(({ requests }) => {
    const request = requests[about]
    return request?.state === 'pending' ? request.command : undefined
  })
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const pending = asked !== undefined && command !== undefined && JSON.stringify(asked) === JSON.stringify(command)
  return { pending, disabled: !connected || (asked !== undefined && !pending) }
}
