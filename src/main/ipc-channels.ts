/** Both ways between the preload script and the main process: what the page asks, and what is pushed to it. */
export const channel = 'metalbar'
