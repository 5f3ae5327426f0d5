class Node: pass
