import { type AgentLink } from '../../contract/client.ts'
export function linkOverHttp(): AgentLink {
  throw new Error('x')
}
