/** Names, for the tests of a run, the file that Node.js runs as the built agent. */
export const agentEntryVariable = 'METALBAR_TEST_AGENT'
