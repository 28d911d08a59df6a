import type { Verb } from '../contract/app-bridge.ts'

/** From the preload script to the main process, which answers with a BridgeReply. */
export const channelOf = (verb: Verb): string => `metalbar:${verb}`

/** From main to the page. */
export const pushChannel = 'metalbar:push'
